/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/scope.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/die.h"

#define SCOPES_MAX (1u << 22)
#define NESTED_MAX 64u
#define HOPS_MAX   4u /* from an inlined function to its declaration */

void scopes_deinit(struct scopes *scopes)
{
	map_deinit(&scopes->by_function);
	free(scopes->scope);
	*scopes = (struct scopes){0};
}

static struct ht_err *add_scope(
	struct scopes *scopes, const char *name, uint32_t parent, uint32_t *ret)
{
	HT_TRY(ARRAY_RESERVE(scopes->scope, scopes->capacity, scopes->count + 1, "scopes"));
	*ret = (uint32_t)scopes->count;
	scopes->scope[scopes->count++] = (struct scope){name, parent};
	return NULL;
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

static struct ht_err *index_children(
	struct scopes *scopes, Dwarf_Die *parent, uint32_t scope, unsigned depth)
{
	Dwarf_Die die;
	if (depth == NESTED_MAX || dwarf_child(parent, &die) != 0)
		return NULL;
	do {
		int tag = dwarf_tag(&die);
		const char *name = dwarf_diename(&die);
		uint32_t inner = scope;
		if (!name && tag == DW_TAG_namespace)
			name = "(anonymous namespace)";
		if (is_scope(tag) && name && scopes->count < SCOPES_MAX)
			HT_TRY(add_scope(scopes, name, scope, &inner));
		if (is_scope(tag))
			HT_TRY(index_children(scopes, &die, inner, depth + 1));
		else if (tag == DW_TAG_subprogram && scope != SCOPE_NONE)
			HT_TRY(map_put(&scopes->by_function, dwarf_dieoffset(&die), scope));
	} while (die_next_sibling(&die));
	return NULL;
}

/* The DIE of the function's declaration. */
static Dwarf_Die find_declaration(const Dwarf_Die *die)
{
	Dwarf_Die at = *die;
	for (unsigned i = 0; i < HOPS_MAX; i++) {
		Dwarf_Attribute attribute;
		Dwarf_Die next;
		if (!dwarf_attr(&at, DW_AT_abstract_origin, &attribute) &&
			!dwarf_attr(&at, DW_AT_specification, &attribute))
			break;
		if (!dwarf_formref_die(&attribute, &next))
			break;
		at = next;
	}
	return at;
}

static size_t put(char *ret, size_t size, size_t length, const char *text)
{
	size_t more = strnlen(text, size - 1 - length);
	memcpy(ret + length, text, more);
	ret[length + more] = '\0';
	return length + more;
}

/* Names gcc's lambda: its type is a class within a function, so the function is found on the way
 * from the unit down to the declaration. A DIE's offset lies between those of its parent and of its
 * parent's next sibling, which shows the way. */
static void name_lambda(Dwarf_Die *unit, Dwarf_Die *declaration, char *ret, size_t size)
{
	Dwarf_Off wanted = dwarf_dieoffset(declaration);
	Dwarf_Die parent = *unit, child, function = {0};
	for (unsigned i = 0; i < NESTED_MAX && dwarf_child(&parent, &child) == 0; i++) {
		for (Dwarf_Die next = child; die_next_sibling(&next);) {
			if (dwarf_dieoffset(&next) > wanted)
				break;
			child = next;
		}
		if (dwarf_dieoffset(&child) == wanted)
			break;
		if (dwarf_tag(&child) == DW_TAG_subprogram)
			function = child;
		parent = child;
	}
	const char *name = function.addr ? dwarf_diename(&function) : NULL;
	const char *type = dwarf_diename(&parent);
	bool is_lambda = is_scope(dwarf_tag(&parent)) &&
			 dwarf_hasattr(declaration, DW_AT_artificial) &&
			 (!type || !strncmp(type, "<lambda(", 8));
	if (name && is_lambda)
		snprintf(ret, size, "lambda in %s()", name);
}

struct ht_err *scopes_name(
	struct scopes *scopes, Dwarf_Die *unit, Dwarf_Die *die, char *ret, size_t size)
{
	uint32_t scope, outer[NESTED_MAX];
	size_t depth = 0, length = 0;
	ret[0] = '\0';
	const char *name = dwarf_diename(die);
	if (!scopes->indexed) {
		scopes->indexed = true;
		HT_TRY(index_children(scopes, unit, SCOPE_NONE, 0));
	}
	Dwarf_Die declaration = find_declaration(die);
	if (name && !strcmp(name, "operator()"))
		name_lambda(unit, &declaration, ret, size);
	if (ret[0] || !name ||
		!map_get(&scopes->by_function, dwarf_dieoffset(&declaration), &scope))
		return NULL;
	for (; scope != SCOPE_NONE && depth < NESTED_MAX; scope = scopes->scope[scope].parent)
		outer[depth++] = scope;
	while (depth-- > 0) {
		length = put(ret, size, length, scopes->scope[outer[depth]].name);
		length = put(ret, size, length, "::");
	}
	length = put(ret, size, length, name);
	put(ret, size, length, "(...)");
	return NULL;
}
