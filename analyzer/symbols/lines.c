/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/lines.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"

#define ROWS_MAX    (1u << 24)
#define FORMATS_MAX 16u /* fields of an entry; DWARF 5 defines five */

/* The header of a line table. */
struct header {
	uint8_t min_instruction_bytes, line_range, opcode_base;
	int8_t line_base;
	uint8_t operands[256]; /* of each standard opcode */
	uint16_t version;
	bool is_64;
	struct bytes tables, program; /* `tables`: directories and files; `program`: instructions */
};

struct machine {
	uint64_t address, file;
	int64_t line;
	size_t first; /* index of the first row of the sequence */
};

void lines_deinit(struct lines *lines)
{
	for (size_t i = 0; i < lines->file_count; i++)
		free(lines->file[i].path);
	free(lines->file);
	free(lines->directory);
	free(lines->row);
	free(lines->sequence);
	spans_deinit(&lines->sequence_span);
	*lines = (struct lines){0};
}

/* Takes a number of `bytes` bytes, at most 8. */
static bool take_number(struct bytes *in, size_t bytes, uint64_t *ret)
{
	const uint8_t *at;
	if (!bytes_take(in, bytes, &at))
		return false;
	*ret = 0;
	memcpy(ret, at, bytes);
	return true;
}

/* Takes an offset or a length, of 8 bytes if `is_64`, otherwise 4. */
static bool take_offset(struct bytes *in, bool is_64, uint64_t *ret)
{
	return take_number(in, is_64 ? 8 : 4, ret);
}

static bool take_length(struct bytes *in, bool *ret_is_64, uint64_t *ret)
{
	if (!take_number(in, 4, ret))
		return false;
	*ret_is_64 = *ret == UINT32_MAX;
	return !*ret_is_64 || take_number(in, 8, ret);
}

static bool take_part(struct bytes *in, uint64_t length, struct bytes *ret)
{
	const uint8_t *at;
	if (length > bytes_left(in) || !bytes_take(in, (size_t)length, &at))
		return false;
	*ret = bytes_of(at, (size_t)length);
	return true;
}

static bool take_header(struct bytes in, struct header *ret)
{
	uint64_t length;
	uint8_t unused, line_base;
	struct bytes unit, rest;
	if (!take_length(&in, &ret->is_64, &length) || !take_part(&in, length, &unit) ||
		!bytes_u16(&unit, &ret->version) || ret->version < 2 || ret->version > 5)
		return false;
	uint16_t version = ret->version;
	/* Sizes of an address and of a segment selector. */
	if (version >= 5 && (!bytes_u8(&unit, &unused) || !bytes_u8(&unit, &unused)))
		return false;
	if (!take_offset(&unit, ret->is_64, &length) || !take_part(&unit, length, &rest))
		return false;
	ret->program = unit;
	if (!bytes_u8(&rest, &ret->min_instruction_bytes) ||
		(version >= 4 && !bytes_u8(&rest, &unused)) || !bytes_u8(&rest, &unused) ||
		!bytes_u8(&rest, &line_base) || !bytes_u8(&rest, &ret->line_range) ||
		!bytes_u8(&rest, &ret->opcode_base) || !ret->line_range || !ret->opcode_base)
		return false;
	ret->line_base = (int8_t)line_base;
	for (unsigned i = 1; i < ret->opcode_base; i++)
		if (!bytes_u8(&rest, &ret->operands[i]))
			return false;
	ret->tables = rest;
	return true;
}

/* --- directories and files --- */

static struct ht_err *add_directory(struct lines *lines, const char *name)
{
	HT_TRY(ARRAY_RESERVE(lines->directory, lines->directory_capacity,
		lines->directory_count + 1, "source directories"));
	lines->directory[lines->directory_count++] = name;
	return NULL;
}

static struct ht_err *add_file(struct lines *lines, const char *name, uint64_t directory)
{
	HT_TRY(ARRAY_RESERVE(
		lines->file, lines->file_capacity, lines->file_count + 1, "source files"));
	lines->file[lines->file_count++] =
		(struct lines_file){.name = name, .directory = directory};
	return NULL;
}

static bool take_text(struct bytes *in, const char **ret)
{
	const uint8_t *end = bytes_left(in) ? memchr(in->at, 0, bytes_left(in)) : NULL;
	if (!end)
		return false;
	*ret = (const char *)in->at;
	in->at = end + 1;
	return true;
}

/* Reads the tables of DWARF 2 to 4: lists that end with an empty name. If they are cut, later files
 * have no path. */
static struct ht_err *read_old_tables(struct lines *lines, struct bytes in, const char *compiled_in)
{
	const char *name;
	HT_TRY(add_directory(lines, compiled_in));
	while (take_text(&in, &name) && *name)
		HT_TRY(add_directory(lines, name));
	HT_TRY(add_file(lines, NULL, 0));
	uint64_t directory, unused;
	while (take_text(&in, &name) && *name && bytes_uleb(&in, &directory) &&
		bytes_uleb(&in, &unused) && bytes_uleb(&in, &unused))
		HT_TRY(add_file(lines, name, directory));
	return NULL;
}

/* Takes one value of an entry of DWARF 5. False: malformed, or a form that compilers do not use
 * here. */
static bool take_value(struct bytes *in, uint64_t form, bool is_64,
	const struct lines_source *source, const char **ret_text, uint64_t *ret_number)
{
	const uint8_t *unused;
	uint64_t offset;
	switch (form) {
	case DW_FORM_string:
		return take_text(in, ret_text);
	case DW_FORM_line_strp:
	case DW_FORM_strp: {
		struct bytes text = form == DW_FORM_strp ? source->strings : source->line_strings;
		return take_offset(in, is_64, &offset) && offset < bytes_left(&text) &&
		       bytes_take(&text, (size_t)offset, &unused) && take_text(&text, ret_text);
	}
	case DW_FORM_udata:
		return bytes_uleb(in, ret_number);
	case DW_FORM_data1:
		return take_number(in, 1, ret_number);
	case DW_FORM_data2:
		return take_number(in, 2, ret_number);
	case DW_FORM_data4:
		return take_number(in, 4, ret_number);
	case DW_FORM_data8:
		return take_number(in, 8, ret_number);
	case DW_FORM_data16:
		return bytes_take(in, 16, &unused);
	case DW_FORM_block:
		return bytes_uleb(in, &offset) && offset <= bytes_left(in) &&
		       bytes_take(in, (size_t)offset, &unused);
	default:
		return false;
	}
}

struct format {
	uint64_t content, form;
};

/* Reads a table of DWARF 5, of directories or of files. False: the rest of the header cannot be
 * read. */
static bool read_new_table(struct lines *lines, struct bytes *in, bool is_64,
	const struct lines_source *source, bool has_files, struct ht_err **ret)
{
	struct format format[FORMATS_MAX];
	uint8_t formats;
	uint64_t count;
	if (!bytes_u8(in, &formats) || formats > FORMATS_MAX)
		return false;
	for (unsigned i = 0; i < formats; i++)
		if (!bytes_uleb(in, &format[i].content) || !bytes_uleb(in, &format[i].form))
			return false;
	if (!bytes_uleb(in, &count) || (count && !formats) || count > bytes_left(in))
		return false;
	for (uint64_t i = 0; i < count && !*ret; i++) {
		const char *name = NULL;
		uint64_t directory = 0;
		for (unsigned f = 0; f < formats; f++) {
			const char *text = NULL;
			uint64_t number = 0;
			if (!take_value(in, format[f].form, is_64, source, &text, &number))
				return false;
			if (format[f].content == DW_LNCT_path)
				name = text;
			else if (format[f].content == DW_LNCT_directory_index)
				directory = number;
		}
		*ret = has_files ? add_file(lines, name, directory) : add_directory(lines, name);
	}
	return !*ret;
}

static struct ht_err *read_tables(
	struct lines *lines, const struct header *header, const struct lines_source *source)
{
	struct bytes in = header->tables;
	struct ht_err *err = NULL;
	if (header->version < 5)
		return read_old_tables(lines, in, source->directory);
	if (read_new_table(lines, &in, header->is_64, source, false, &err))
		(void)read_new_table(lines, &in, header->is_64, source, true, &err);
	return err;
}

struct ht_err *lines_path(struct lines *lines, uint64_t index, const char **ret)
{
	*ret = NULL;
	if (index >= lines->file_count || !lines->file[index].name)
		return NULL;
	struct lines_file *file = &lines->file[index];
	if (file->name[0] == '/') {
		*ret = file->name;
		return NULL;
	}
	bool is_below = file->directory < lines->directory_count;
	const char *directory = is_below ? lines->directory[file->directory] : NULL;
	if (!file->path && asprintf(&file->path, "%s%s%s", directory ? directory : "",
				   directory ? "/" : "", file->name) < 0) {
		file->path = NULL;
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the name of a file");
	}
	*ret = file->path;
	return NULL;
}

/* --- the program --- */

static void begin(struct machine *machine, const struct lines *lines)
{
	*machine = (struct machine){.file = 1, .line = 1, .first = lines->count};
}

static struct ht_err *add_row(struct lines *lines, struct machine *machine)
{
	/* Addresses in a sequence must not decrease: ignore a row that does. */
	if (lines->count == ROWS_MAX ||
		(lines->count > machine->first &&
			machine->address < lines->row[lines->count - 1].address))
		return NULL;
	HT_TRY(ARRAY_RESERVE(
		lines->row, lines->capacity, lines->count + 1, "rows of a line table"));
	lines->row[lines->count++] = (struct lines_row){machine->address,
		machine->file > UINT32_MAX ? 0 : (uint32_t)machine->file,
		machine->line < 0 || machine->line > UINT32_MAX ? 0 : (uint32_t)machine->line};
	return NULL;
}

static struct ht_err *add_sequence(struct lines *lines, uint64_t from, uint64_t to, size_t first)
{
	HT_TRY(ARRAY_RESERVE(lines->sequence, lines->sequence_capacity, lines->sequence_count + 1,
		"sequences of lines"));
	HT_TRY(spans_add(&lines->sequence_span, from, to, (uint32_t)lines->sequence_count));
	lines->sequence[lines->sequence_count++] =
		(struct lines_sequence){first, lines->count - first};
	return NULL;
}

static struct ht_err *end_sequence(
	struct lines *lines, struct machine *machine, const struct spans *code)
{
	size_t first = machine->first;
	struct ht_err *err = NULL;
	uint64_t from = lines->count > first ? lines->row[first].address : 0;
	if (lines->count > first && from < machine->address &&
		spans_hold(code, from, machine->address))
		err = add_sequence(lines, from, machine->address, first);
	else
		lines->count = first;
	begin(machine, lines);
	return err;
}

static struct ht_err *run_extended(struct bytes *program, struct lines *lines,
	struct machine *machine, const struct spans *code, bool *ret_valid)
{
	uint64_t length;
	uint8_t opcode;
	struct bytes operand;
	*ret_valid = bytes_uleb(program, &length) && take_part(program, length, &operand) &&
		     bytes_u8(&operand, &opcode);
	if (!*ret_valid)
		return NULL;
	if (opcode == DW_LNE_end_sequence)
		return end_sequence(lines, machine, code);
	if (opcode == DW_LNE_set_address)
		*ret_valid = bytes_u64(&operand, &machine->address);
	return NULL;
}

static struct ht_err *run_standard(struct bytes *program, const struct header *header,
	uint8_t opcode, struct lines *lines, struct machine *machine, bool *ret_valid)
{
	uint64_t number = 0;
	int64_t advance;
	uint16_t fixed;
	switch (opcode) {
	case DW_LNS_copy:
		return add_row(lines, machine);
	case DW_LNS_advance_pc:
		*ret_valid = bytes_uleb(program, &number);
		machine->address += number * header->min_instruction_bytes;
		return NULL;
	case DW_LNS_advance_line:
		*ret_valid = bytes_sleb(program, &advance) &&
			     !__builtin_add_overflow(machine->line, advance, &machine->line);
		return NULL;
	case DW_LNS_set_file:
		*ret_valid = bytes_uleb(program, &machine->file);
		return NULL;
	case DW_LNS_const_add_pc:
		machine->address += (uint64_t)((255 - header->opcode_base) / header->line_range) *
				    header->min_instruction_bytes;
		return NULL;
	case DW_LNS_fixed_advance_pc:
		*ret_valid = bytes_u16(program, &fixed);
		machine->address += *ret_valid ? fixed : 0;
		return NULL;
	default:
		for (unsigned i = 0; i < header->operands[opcode] && *ret_valid; i++)
			*ret_valid = bytes_uleb(program, &number);
		return NULL;
	}
}

static struct ht_err *run_special(
	const struct header *header, uint8_t opcode, struct lines *lines, struct machine *machine)
{
	unsigned step = (unsigned)(opcode - header->opcode_base);
	machine->address += (uint64_t)(step / header->line_range) * header->min_instruction_bytes;
	if (__builtin_add_overflow(machine->line,
		    header->line_base + (int)(step % header->line_range), &machine->line))
		machine->line = 0;
	return add_row(lines, machine);
}

struct ht_err *lines_read(
	struct lines *lines, const struct lines_source *source, const struct spans *code)
{
	struct header header = {0};
	struct bytes section = source->section, before;
	if (!take_part(&section, source->offset, &before) || !take_header(section, &header))
		return NULL;
	struct ht_err *err = read_tables(lines, &header, source);
	struct bytes *program = &header.program;
	struct machine machine;
	bool valid = true;
	uint8_t opcode;
	begin(&machine, lines);
	while (!err && valid && bytes_u8(program, &opcode)) {
		if (opcode >= header.opcode_base)
			err = run_special(&header, opcode, lines, &machine);
		else if (opcode == 0)
			err = run_extended(program, lines, &machine, code, &valid);
		else
			err = run_standard(program, &header, opcode, lines, &machine, &valid);
	}
	/* Drop the rows of a sequence without an end. */
	lines->count = machine.first;
	spans_sort(&lines->sequence_span);
	return err;
}

const struct lines_row *lines_find(const struct lines *lines, uint64_t address)
{
	size_t at = 0;
	const struct span *span = spans_next(&lines->sequence_span, address, &at);
	if (!span)
		return NULL;
	const struct lines_sequence *sequence = &lines->sequence[span->index];
	const struct lines_row *row = &lines->row[sequence->first];
	const size_t count = array_from(row, sequence->count, sizeof(*row), address + 1);
	return count ? &row[count - 1] : NULL;
}
