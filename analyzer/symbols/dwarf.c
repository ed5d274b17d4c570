/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/dwarf.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/die.h"
#include "analyzer/symbols/lines.h"
#include "analyzer/symbols/scope.h"
#include "analyzer/symbols/split.h"

#define DEPTH_MAX 128u /* of nested DIEs */
struct unit {
	Dwarf_Die die;	 /* the unit, or the skeleton unit; has the line table */
	Dwarf_Die whole; /* the unit, or the split unit of the skeleton */
	bool is_skeleton;
	bool indexed;
	struct spans function_span; /* span.index is an index in `function` */
	Dwarf_Die *function;
	size_t function_count, function_capacity;
	struct scopes scopes;
	struct lines lines;
	bool has_lines; /* the line table was read, or the unit has none */
};

struct dwarf {
	const struct elf_file *file;
	const struct finder *finder;
	const char *path;
	struct dwarf_note *note;
	struct split split;
	struct spans code; /* ranges that contain code */
	Dwarf *dw;
	Dwarf *alternate; /* DWARF shared between files by dwz, or NULL */
	struct elf_file alternate_file;
	struct unit *unit;
	size_t unit_count, unit_capacity;
	struct spans unit_span; /* span.index is an index in `unit` */
};

/* Adds only ranges within code: for dropped code, the linker leaves ranges at 0 or at another
 * address without code. */
static struct ht_err *add_ranges(
	const struct dwarf *dwarf, struct spans *spans, Dwarf_Die *die, uint32_t index)
{
	Dwarf_Addr base, from, to;
	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &from, &to)) > 0;)
		if (spans_hold(&dwarf->code, from, to))
			HT_TRY(spans_add(spans, from, to, index));
	return NULL;
}

/* --- units ----------------------------------------------------------------------------------- */

/* Finds the alternate file here, by build-id, because libdw would open any path that the file
 * names. False if the file refers to one that is not found: without it, most names would be
 * missing. */
static bool open_alternate(struct dwarf *dwarf)
{
	const char *path = NULL;
	const void *bytes = NULL;
	ssize_t length = dwelf_dwarf_gnu_debugaltlink(dwarf->dw, &path, &bytes);
	if (length <= 0)
		return length == 0;
	char build_id[2 * TRACE_BUILD_ID_MAX + 1] = "";
	for (ssize_t i = 0; i < length && i < (ssize_t)TRACE_BUILD_ID_MAX; i++)
		snprintf(build_id + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
	elf_file_open_debug(&dwarf->alternate_file, dwarf->finder, build_id);
	if (!dwarf->alternate_file.elf)
		elf_file_open_path(&dwarf->alternate_file, dwarf->finder, path, build_id);
	if (dwarf->alternate_file.elf)
		dwarf->alternate = dwarf_begin_elf(dwarf->alternate_file.elf, DWARF_C_READ, NULL);
	if (dwarf->alternate) {
		dwarf_setalt(dwarf->dw, dwarf->alternate);
		return true;
	}
	dwarf->note->state = REC_NAMES_ALTERNATE;
	snprintf(dwarf->note->detail, sizeof(dwarf->note->detail), "%s", path);
	return false;
}

static struct ht_err *read_units(struct dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;
	Dwarf_Die die;
	/* Do not ask libdw for split units: it would open any path that the skeleton names. */
	while (dwarf_get_units(dwarf->dw, cu, &cu, NULL, &type, &die, NULL) == 0) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		HT_TRY(ARRAY_RESERVE(dwarf->unit, dwarf->unit_capacity, dwarf->unit_count + 1,
			"compilation units"));
		HT_TRY(add_ranges(dwarf, &dwarf->unit_span, &die, (uint32_t)dwarf->unit_count));
		dwarf->unit[dwarf->unit_count++] = (struct unit){
			.die = die, .whole = die, .is_skeleton = type == DW_UT_skeleton};
	}
	spans_sort(&dwarf->unit_span);
	return NULL;
}

/* Notes that libdw cannot read the DWARF: it is compressed in an unknown way, otherwise damaged. */
static void note_unread(struct dwarf *dwarf)
{
	dwarf->note->state = elf_file_is_compressed(dwarf->file, ".debug_info")
				     ? REC_NAMES_COMPRESSED
				     : REC_NAMES_DAMAGED;
	snprintf(dwarf->note->detail, sizeof(dwarf->note->detail), "%s", dwarf->path);
}

struct ht_err *dwarf_create(const struct elf_file *file, const struct finder *finder,
	const char *path, struct dwarf_note *note, struct dwarf **ret)
{
	*ret = NULL;
	struct dwarf *dwarf = calloc(1, sizeof(*dwarf));
	if (!dwarf)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for debug information");
	*dwarf = (struct dwarf){.file = file,
		.finder = finder,
		.path = path,
		.note = note,
		.alternate_file.fd = -1};
	split_prepare(&dwarf->split, file, finder, path);
	dwarf->dw = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!dwarf->dw || !open_alternate(dwarf)) {
		if (!dwarf->dw)
			note_unread(dwarf);
		dwarf_destroy(dwarf);
		return NULL;
	}
	struct ht_err *err = elf_file_code(file, &dwarf->code);
	HT_THEN(err, read_units(dwarf));
	if (!err && dwarf->unit_count == 0)
		note_unread(dwarf);
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
		spans_deinit(&dwarf->unit[i].function_span);
		free(dwarf->unit[i].function);
		scopes_deinit(&dwarf->unit[i].scopes);
		lines_deinit(&dwarf->unit[i].lines);
	}
	free(dwarf->unit);
	spans_deinit(&dwarf->unit_span);
	spans_deinit(&dwarf->code);
	dwarf_end(dwarf->dw);
	dwarf_end(dwarf->alternate);
	elf_file_close(&dwarf->alternate_file);
	split_deinit(&dwarf->split);
	free(dwarf);
}

/* --- functions of a unit --------------------------------------------------------------------- */

static struct ht_err *add_function(const struct dwarf *dwarf, struct unit *unit, Dwarf_Die *die)
{
	HT_TRY(ARRAY_RESERVE(
		unit->function, unit->function_capacity, unit->function_count + 1, "functions"));
	HT_TRY(add_ranges(dwarf, &unit->function_span, die, (uint32_t)unit->function_count));
	unit->function[unit->function_count++] = *die;
	return NULL;
}

/* Indexes functions in the unit and its namespaces; functions in classes are only declarations. */
static struct ht_err *index_children(
	const struct dwarf *dwarf, struct unit *unit, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;
	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return NULL;
	do {
		int tag = dwarf_tag(&die);
		if (tag == DW_TAG_subprogram)
			HT_TRY(add_function(dwarf, unit, &die));
		else if (tag == DW_TAG_namespace || tag == DW_TAG_module)
			HT_TRY(index_children(dwarf, unit, &die, depth + 1));
	} while (die_next_sibling(&die));
	return NULL;
}

static struct ht_err *index_unit(struct dwarf *dwarf, struct unit *unit)
{
	struct dwarf_note *note = dwarf->note;
	char detail[sizeof(note->detail)] = "";
	Dwarf_Die whole;
	if (unit->indexed)
		return NULL;
	unit->indexed = true;
	if (unit->is_skeleton &&
		split_find(&dwarf->split, &unit->die, &whole, detail, sizeof(detail))) {
		unit->whole = whole;
	} else if (unit->is_skeleton) {
		note->state = REC_NAMES_SPLIT;
		memcpy(note->detail, detail, sizeof(detail));
	}
	struct ht_err *err = index_children(dwarf, unit, &unit->whole, 0);
	spans_sort(&unit->function_span);
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
		/* A block without ranges of its own covers its parent. */
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
	HT_TRY(strings_intern(
		strings, (struct rec_string){.data = text, .length = strlen(text)}, &stored));
	*ret = (struct rec_string){.data = stored, .length = strlen(stored)};
	return NULL;
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
		dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return NULL;
}

/* The symbol of the function itself may be more precise than its scope; inlined functions have no
 * symbol. */
static struct ht_err *intern_name(struct strings *strings, struct unit *unit, Dwarf_Die *die,
	bool is_inlined, struct rec_string *ret)
{
	char scoped[TRACE_STRING_MAX] = "";
	const char *linkage = linkage_name(die);
	HT_FREED char *readable = linkage ? demangle(linkage) : NULL;
	const char *plain = dwarf_diename(die);
	if (!linkage && is_inlined)
		HT_TRY(scopes_name(&unit->scopes, &unit->whole, die, scoped, sizeof(scoped)));
	if (scoped[0])
		plain = scoped;
	return intern(strings, readable ? readable : (plain ? plain : linkage), ret);
}

static struct ht_err *read_lines(const struct dwarf *dwarf, struct unit *unit)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset;
	if (unit->has_lines)
		return NULL;
	unit->has_lines = true;
	if (!dwarf_attr(&unit->die, DW_AT_stmt_list, &attribute) ||
		dwarf_formudata(&attribute, &offset) != 0)
		return NULL;
	const struct elf_file *file = dwarf->file;
	return lines_read(&unit->lines,
		&(struct lines_source){.section = elf_file_section(file, ".debug_line"),
			.strings = elf_file_section(file, ".debug_str"),
			.line_strings = elf_file_section(file, ".debug_line_str"),
			.offset = offset,
			.directory = dwarf_attr(&unit->die, DW_AT_comp_dir, &attribute)
					     ? dwarf_formstring(&attribute)
					     : NULL},
		&dwarf->code);
}

static struct ht_err *intern_file(
	struct strings *strings, struct unit *unit, uint64_t index, struct rec_string *ret)
{
	const char *path;
	HT_TRY(lines_path(&unit->lines, index, &path));
	return intern(strings, path, ret);
}

static struct ht_err *intern_line(const struct dwarf *dwarf, struct strings *strings,
	struct unit *unit, uint64_t address, struct rec_frame *ret)
{
	HT_TRY(read_lines(dwarf, unit));
	const struct lines_row *row = lines_find(&unit->lines, address);
	if (!row)
		return NULL;
	ret->line = row->line;
	return intern_file(strings, unit, row->file, &ret->file);
}

/* Stores file and line of the call of the inlined function `die`. */
static struct ht_err *intern_call(
	struct strings *strings, struct unit *unit, Dwarf_Die *die, struct rec_frame *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;
	if (dwarf_attr(die, DW_AT_call_line, &attribute) &&
		dwarf_formudata(&attribute, &number) == 0)
		ret->line = number;
	if (!dwarf_attr(die, DW_AT_call_file, &attribute) ||
		dwarf_formudata(&attribute, &number) != 0)
		return NULL;
	if (!unit->is_skeleton)
		return intern_file(strings, unit, number, &ret->file);
	/* File numbers in a split unit refer to its own table. */
	Dwarf_Files *files;
	size_t count;
	if (dwarf_getsrcfiles(&unit->whole, &files, &count) != 0 || number >= count)
		return NULL;
	return intern(strings, dwarf_filesrc(files, number, NULL, NULL), &ret->file);
}

/* The function of `unit` that holds `address` and agrees with the symbols; NULL: none. */
static Dwarf_Die *find_function(struct unit *unit, const struct symtab *symtab, uint64_t address)
{
	size_t at = 0;
	const struct span *span;
	while ((span = spans_next(&unit->function_span, address, &at))) {
		Dwarf_Die *die = &unit->function[span->index];
		const char *name = linkage_name(die);
		if (symtab_agrees(symtab, address, span->from, span->to,
			    name ? name : dwarf_diename(die)))
			return die;
	}
	return NULL;
}

/* The frames of a function that holds `address`. */
static struct ht_err *put_frames(struct dwarf *dwarf, struct strings *strings, struct unit *unit,
	Dwarf_Die *function, uint64_t address, struct rec_frame *ret, uint64_t *ret_count)
{
	Dwarf_Die chain[TRACE_INLINE_MAX]; /* outermost first; frames are the other way round */
	struct rec_frame frame = {0};
	chain[0] = *function;
	size_t depth = find_inlined(&chain[0], address, chain, 1, 0);
	HT_TRY(intern_line(dwarf, strings, unit, address, &frame));
	for (size_t i = depth; i-- > 0;) {
		HT_TRY(intern_name(strings, unit, &chain[i], i > 0, &frame.function));
		ret[depth - 1 - i] = frame;
		frame = (struct rec_frame){0};
		if (i > 0)
			HT_TRY(intern_call(strings, unit, &chain[i], &frame));
	}
	*ret_count = depth;
	return NULL;
}

struct ht_err *dwarf_frames(struct dwarf *dwarf, const struct symtab *symtab,
	struct strings *strings, uint64_t address, struct rec_frame *ret, uint64_t *ret_count)
{
	size_t at = 0;
	const struct span *span;
	*ret_count = 0;
	while ((span = spans_next(&dwarf->unit_span, address, &at))) {
		struct unit *unit = &dwarf->unit[span->index];
		HT_TRY(index_unit(dwarf, unit));
		Dwarf_Die *function = find_function(unit, symtab, address);
		if (function)
			return put_frames(dwarf, strings, unit, function, address, ret, ret_count);
		/* A function without a DIE may still have lines. */
		struct rec_frame frame = {0};
		if (*ret_count == 0)
			HT_TRY(intern_line(dwarf, strings, unit, address, &frame));
		if (frame.file.length) {
			ret[0] = frame;
			*ret_count = 1;
		}
	}
	return NULL;
}
