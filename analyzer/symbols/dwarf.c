/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/dwarf.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/array.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/die.h"
#include "analyzer/symbols/scope.h"

#define DEPTH_MAX  128u	      /* of nested DIEs */
#define RANGES_MAX (1u << 22) /* of a file's units, or of a unit's functions */
#define LOOK_BACK  16u	      /* overlapping ranges looked at before the one that starts last */

/* [from, to) belongs to what `index` counts. */
struct range {
	uint64_t from, to;
	uint32_t index;
};

struct ranges {
	struct range *range;
	size_t count, capacity;
};

struct unit {
	Dwarf_Die die;
	bool indexed;
	struct ranges function_range; /* index: in `function` */
	Dwarf_Die *function;
	size_t function_count, function_capacity;
	struct scopes scopes;
};

struct dwarf {
	Dwarf *dw;
	Dwarf *alternate; /* DWARF shared between files by dwz, or NULL */
	struct elf_file alternate_file;
	struct unit *unit;
	size_t unit_count, unit_capacity;
	struct ranges unit_range; /* index: in `unit` */
};

/* --- ranges ---------------------------------------------------------------------------------- */

static struct ht_err *ranges_add(struct ranges *ranges, Dwarf_Die *die, uint32_t index)
{
	Dwarf_Addr base, from, to;
	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &from, &to)) > 0;) {
		if (from >= to || ranges->count == RANGES_MAX)
			continue;
		struct ht_err *err = array_reserve(&ranges->range, &ranges->capacity,
			ranges->count + 1, sizeof(*ranges->range), "code ranges");
		if (err)
			return err;
		ranges->range[ranges->count++] =
			(struct range){.from = from, .to = to, .index = index};
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

static void ranges_sort(struct ranges *ranges)
{
	if (ranges->count)
		qsort(ranges->range, ranges->count, sizeof(*ranges->range), compare);
}

static bool ranges_find(const struct ranges *ranges, uint64_t address, uint32_t *ret)
{
	size_t from = 0, to = ranges->count; /* the first that starts behind `address` */
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (ranges->range[middle].from <= address)
			from = middle + 1;
		else
			to = middle;
	}
	for (size_t back = 1; back <= LOOK_BACK && back <= from; back++) {
		if (address < ranges->range[from - back].to) {
			*ret = ranges->range[from - back].index;
			return true;
		}
	}
	return false;
}

/* --- units ----------------------------------------------------------------------------------- */

/* libdw would open whatever path the file names; so the alternate file is found here, by build-id.
 * False when there is one and it is not found: then names would be missing throughout. */
static bool open_alternate(struct dwarf *dwarf, const char *sysroot)
{
	const char *path = NULL;
	const void *bytes = NULL;
	ssize_t length = dwelf_dwarf_gnu_debugaltlink(dwarf->dw, &path, &bytes);
	if (length <= 0)
		return length == 0;
	char build_id[2 * TRACE_BUILD_ID_MAX + 1] = "";
	for (ssize_t i = 0; i < length && i < (ssize_t)TRACE_BUILD_ID_MAX; i++)
		snprintf(build_id + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
	elf_file_open_debug(&dwarf->alternate_file, sysroot, build_id);
	if (!dwarf->alternate_file.elf && path[0] == '/')
		elf_file_open_path(&dwarf->alternate_file, path, build_id);
	if (!dwarf->alternate_file.elf)
		return false;
	dwarf->alternate = dwarf_begin_elf(dwarf->alternate_file.elf, DWARF_C_READ, NULL);
	if (!dwarf->alternate)
		return false;
	dwarf_setalt(dwarf->dw, dwarf->alternate);
	return true;
}

static struct ht_err *read_units(struct dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;
	Dwarf_Die die;
	/* No split units: libdw would open any path that the skeleton names. */
	while (dwarf_get_units(dwarf->dw, cu, &cu, NULL, &type, &die, NULL) == 0) {
		if (type != DW_UT_compile)
			continue;
		struct ht_err *err = array_reserve(&dwarf->unit, &dwarf->unit_capacity,
			dwarf->unit_count + 1, sizeof(*dwarf->unit), "compilation units");
		if (!err)
			err = ranges_add(&dwarf->unit_range, &die, (uint32_t)dwarf->unit_count);
		if (err)
			return err;
		dwarf->unit[dwarf->unit_count++].die = die;
	}
	ranges_sort(&dwarf->unit_range);
	return NULL;
}

struct ht_err *dwarf_create(const struct elf_file *file, const char *sysroot, struct dwarf **ret)
{
	*ret = NULL;
	struct dwarf *dwarf = calloc(1, sizeof(*dwarf));
	if (!dwarf)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for debug information");
	dwarf->alternate_file.fd = -1;
	dwarf->dw = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!dwarf->dw || !open_alternate(dwarf, sysroot)) {
		dwarf_destroy(dwarf);
		return NULL;
	}
	struct ht_err *err = read_units(dwarf);
	if (err)
		dwarf_destroy(dwarf);
	else
		*ret = dwarf;
	return err;
}

void dwarf_destroy(struct dwarf *dwarf)
{
	if (!dwarf)
		return;
	for (size_t i = 0; i < dwarf->unit_count; i++) {
		free(dwarf->unit[i].function_range.range);
		free(dwarf->unit[i].function);
		scopes_deinit(&dwarf->unit[i].scopes);
	}
	free(dwarf->unit);
	free(dwarf->unit_range.range);
	dwarf_end(dwarf->dw);
	dwarf_end(dwarf->alternate);
	elf_file_close(&dwarf->alternate_file);
	free(dwarf);
}

/* --- functions of a unit --------------------------------------------------------------------- */

static struct ht_err *add_function(struct unit *unit, Dwarf_Die *die)
{
	struct ht_err *err = array_reserve(&unit->function, &unit->function_capacity,
		unit->function_count + 1, sizeof(*unit->function), "functions");
	if (!err)
		err = ranges_add(&unit->function_range, die, (uint32_t)unit->function_count);
	if (!err)
		unit->function[unit->function_count++] = *die;
	return err;
}

/* Functions stand in the unit and in namespaces; those in classes are declarations. */
static struct ht_err *index_children(struct unit *unit, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;
	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return NULL;
	do {
		struct ht_err *err = NULL;
		int tag = dwarf_tag(&die);
		if (tag == DW_TAG_subprogram)
			err = add_function(unit, &die);
		else if (tag == DW_TAG_namespace || tag == DW_TAG_module)
			err = index_children(unit, &die, depth + 1);
		if (err)
			return err;
	} while (die_next_sibling(&die));
	return NULL;
}

static struct ht_err *index_unit(struct unit *unit)
{
	if (unit->indexed)
		return NULL;
	unit->indexed = true;
	struct ht_err *err = index_children(unit, &unit->die, 0);
	ranges_sort(&unit->function_range);
	return err;
}

/* The chain of inlined functions below `die` that holds `address`, outermost first. */
static size_t find_inlined(
	Dwarf_Die *die, uint64_t address, Dwarf_Die *ret, size_t count, unsigned depth)
{
	Dwarf_Die child;
	if (depth == DEPTH_MAX || count == TRACE_INLINE_MAX || dwarf_child(die, &child) != 0)
		return count;
	do {
		int tag = dwarf_tag(&child);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
			continue;
		/* A block without ranges of its own is as long as what it stands in. */
		bool unbounded = tag == DW_TAG_lexical_block &&
				 !dwarf_hasattr(&child, DW_AT_ranges) &&
				 !dwarf_hasattr(&child, DW_AT_low_pc);
		if (!unbounded && dwarf_haspc(&child, address) != 1)
			continue;
		size_t before = count;
		if (tag == DW_TAG_inlined_subroutine)
			ret[count++] = child;
		count = find_inlined(&child, address, ret, count, depth + 1);
		if (count > before || !unbounded)
			return count;
	} while (die_next_sibling(&child));
	return count;
}

/* --- frames ---------------------------------------------------------------------------------- */

static struct ht_err *intern(struct strings *strings, const char *text, struct rec_string *ret)
{
	if (!text)
		return NULL;
	const char *stored;
	struct ht_err *err = strings_intern(
		strings, (struct rec_string){.data = text, .length = strlen(text)}, &stored);
	if (!err)
		*ret = (struct rec_string){.data = stored, .length = strlen(stored)};
	return err;
}

/* Of the function itself a symbol may say more than its place does; inlined ones have none. */
static struct ht_err *intern_name(struct strings *strings, struct unit *unit, Dwarf_Die *die,
	bool is_inlined, struct rec_string *ret)
{
	char scoped[TRACE_STRING_MAX] = "";
	Dwarf_Attribute attribute;
	const char *linkage = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
		dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		linkage = dwarf_formstring(&attribute);
	char *readable = linkage ? demangle(linkage) : NULL;
	const char *plain = dwarf_diename(die);
	struct ht_err *err = NULL;
	if (!linkage && is_inlined)
		err = scopes_name(&unit->scopes, &unit->die, die, scoped, sizeof(scoped));
	if (scoped[0])
		plain = scoped;
	if (!err)
		err = intern(strings, readable ? readable : (plain ? plain : linkage), ret);
	free(readable);
	return err;
}

static struct ht_err *intern_line(
	struct strings *strings, Dwarf_Die *unit, uint64_t address, struct rec_frame *ret)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int number;
	if (!line)
		return NULL;
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		ret->line = (uint64_t)number;
	return intern(strings, dwarf_linesrc(line, NULL, NULL), &ret->file);
}

/* Where the inlined function `die` was called. */
static struct ht_err *intern_call(
	struct strings *strings, Dwarf_Die *unit, Dwarf_Die *die, struct rec_frame *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;
	Dwarf_Files *files;
	size_t count;
	if (dwarf_attr(die, DW_AT_call_line, &attribute) &&
		dwarf_formudata(&attribute, &number) == 0)
		ret->line = number;
	if (!dwarf_attr(die, DW_AT_call_file, &attribute) ||
		dwarf_formudata(&attribute, &number) != 0 ||
		dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count)
		return NULL;
	return intern(strings, dwarf_filesrc(files, number, NULL, NULL), &ret->file);
}

struct ht_err *dwarf_frames(struct dwarf *dwarf, struct strings *strings, uint64_t address,
	struct rec_frame *ret, uint64_t *ret_count)
{
	uint32_t index;
	*ret_count = 0;
	if (!ranges_find(&dwarf->unit_range, address, &index))
		return NULL;
	struct unit *unit = &dwarf->unit[index];
	struct ht_err *err = index_unit(unit);
	if (err)
		return err;
	Dwarf_Die chain[TRACE_INLINE_MAX]; /* outermost first; frames are the other way round */
	size_t depth = 0;
	if (ranges_find(&unit->function_range, address, &index)) {
		chain[0] = unit->function[index];
		depth = find_inlined(&chain[0], address, chain, 1, 0);
	}
	struct rec_frame frame = {0};
	err = intern_line(strings, &unit->die, address, &frame);
	for (size_t i = depth; i-- > 0 && !err;) {
		err = intern_name(strings, unit, &chain[i], i > 0, &frame.function);
		ret[depth - 1 - i] = frame;
		frame = (struct rec_frame){0};
		if (!err && i > 0)
			err = intern_call(strings, &unit->die, &chain[i], &frame);
	}
	if (err)
		return err;
	if (depth == 0 && frame.file.length) {
		ret[0] = frame;
		depth = 1;
	}
	*ret_count = depth;
	return NULL;
}
