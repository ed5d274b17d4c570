/* SPDX-License-Identifier: Apache-2.0
 *
 * Line tables: each sequence stands for itself; tables of any content are bounded.
 */
#include "analyzer/symbols/lines.h"

#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"

#define CODE 0x1000u

static struct bytes_out table;

static void put(const void *data, size_t length)
{
	ck_no_err(bytes_out_put(&table, data, length));
}

static void put_u8(unsigned value)
{
	ck_no_err(bytes_out_u8(&table, (uint8_t)value));
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof(value));
}

/* Begins a table of DWARF 4 with one directory and two files; special opcodes step by -1 to 2
 * lines. */
static void begin(void)
{
	static const char tables[] = "dir\0\0first.c\0\1\0\0second.c\0\0\0\0";
	static const uint8_t operands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1};
	table.length = 0;
	put_u32(0);
	put("\4", 2);
	put_u32(6 + sizeof(operands) + sizeof(tables));
	put("\1\1\1\377\4\12", 6);
	put(operands, sizeof(operands));
	put(tables, sizeof(tables));
}

static void put_sequence(uint64_t from, uint64_t to, unsigned file, unsigned line)
{
	put("\0\11\2", 3);
	put(&from, sizeof(from));
	put_u8(4);
	put_u8(file);
	put_u8(3);
	put_u8(line - 1);
	put_u8(1);
	/* A row in the middle of the sequence, on the next line. */
	put_u8(2);
	ck_no_err(bytes_out_uleb(&table, (to - from) / 2));
	put_u8(10 + 2);
	put_u8(2);
	ck_no_err(bytes_out_uleb(&table, (to - from) - (to - from) / 2));
	put("\0\1\1", 3);
}

static void read_table(struct lines *lines, const struct spans *code)
{
	uint32_t length = (uint32_t)table.length - 4;
	memcpy(table.data, &length, sizeof(length));
	*lines = (struct lines){0};
	ck_no_err(lines_read(lines,
		&(struct lines_source){
			.section = bytes_of(table.data, table.length), .directory = "/built"},
		code));
}

static struct spans code_at(uint64_t from, uint64_t to)
{
	struct spans code = {0};
	ck_no_err(spans_add(&code, from, to, 0));
	spans_sort(&code);
	return code;
}

static void check_row(struct lines *lines, uint64_t address, const char *path, unsigned line)
{
	const struct lines_row *row = lines_find(lines, address);
	const char *has;
	ck_assert_ptr_nonnull(row);
	ck_assert_uint_eq(row->line, line);
	ck_no_err(lines_path(lines, row->file, &has));
	ck_assert_str_eq(has, path);
}

HT_TEST(sequences_of_dropped_code_are_left_out)
{
	struct spans code = code_at(CODE, CODE + 0x1000);
	struct lines lines;
	begin();
	put_sequence(CODE + 0x100, CODE + 0x180, 1, 20);
	put_sequence(0, 0x8000, 2, 70);
	put_sequence(UINT64_MAX, 0x10, 2, 80);
	put_sequence(1, 0x4000, 2, 90);
	put_sequence(CODE + 0x180, CODE + 0x200, 2, 40);
	read_table(&lines, &code);
	check_row(&lines, CODE + 0x100, "dir/first.c", 20);
	check_row(&lines, CODE + 0x13f, "dir/first.c", 20);
	check_row(&lines, CODE + 0x140, "dir/first.c", 21);
	check_row(&lines, CODE + 0x180, "/built/second.c", 40);
	check_row(&lines, CODE + 0x1ff, "/built/second.c", 41);
	ck_assert_ptr_null(lines_find(&lines, CODE + 0xff));
	ck_assert_ptr_null(lines_find(&lines, CODE + 0x200));
	ck_assert_ptr_null(lines_find(&lines, 0));
	lines_deinit(&lines);
	spans_deinit(&code);
}

HT_TEST(rows_without_an_end_name_nothing)
{
	struct spans code = code_at(CODE, CODE + 0x1000);
	struct lines lines;
	begin();
	put_sequence(CODE, CODE + 0x100, 1, 20);
	table.length -= 3;
	read_table(&lines, &code);
	ck_assert_ptr_null(lines_find(&lines, CODE));
	lines_deinit(&lines);
	spans_deinit(&code);
}

HT_TEST(tables_of_any_content_are_bounded)
{
	struct spans code = code_at(0, UINT64_MAX);
	uint64_t seed = 1;
	for (unsigned round = 0; round < 20000; round++) {
		struct lines lines;
		const char *path;
		begin();
		put_sequence(CODE, CODE + 0x100, 1, 20);
		put_sequence(CODE + 0x100, CODE + 0x200, 2, 40);
		for (unsigned i = 0; i < 4; i++)
			table.data[4 + random_next(&seed) % (table.length - 4)] =
				(uint8_t)random_next(&seed);
		if (round % 4 == 0)
			table.data[4] = 5;
		table.length -= random_next(&seed) % 8;
		read_table(&lines, &code);
		(void)lines_find(&lines, CODE + 8);
		for (size_t i = 0; i < lines.file_count + 1; i++)
			ck_no_err(lines_path(&lines, i, &path));
		lines_deinit(&lines);
	}
	spans_deinit(&code);
}

HT_SUITE("analyzer/lines")
