/* SPDX-License-Identifier: Apache-2.0
 *
 * Jitdumps: functions get the names under which they were loaded, wherever they are moved; files of
 * any content are bounded.
 */
#include "analyzer/symbols/jitdump.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/perf_map.h"
#include "tests/support/ht_check.h"
#include "tests/support/random.h"
#include "tests/support/tmpdir.h"

#define MANY_BYTES (1u << 20)

static struct bytes_out file;

static void put(const void *data, size_t bytes)
{
	ck_no_err(bytes_out_put(&file, data, bytes));
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put_u64(uint64_t value)
{
	put(&value, sizeof(value));
}

/* Begins a file; its header has `more` additional bytes, as a later version may write. */
static void begin(uint32_t version, uint32_t machine, uint32_t more)
{
	file.length = 0;
	put_u32(JITDUMP_MAGIC);
	put_u32(version);
	put_u32(40 + more);
	put_u32(machine);
	put_u32(0);
	put_u32(1234);
	put_u64(1);
	put_u64(0);
	for (uint32_t i = 0; i < more; i++)
		put("x", 1);
}

static void begin_record(uint32_t kind, size_t bytes)
{
	put_u32(kind);
	put_u32((uint32_t)(16 + bytes));
	put_u64(2);
}

static void put_load(uint64_t address, uint64_t bytes, uint64_t index, const char *name)
{
	begin_record(0, 40 + strlen(name) + 1 + 3);
	put_u32(1234);
	put_u32(1235);
	put_u64(address);
	put_u64(address);
	put_u64(bytes);
	put_u64(index);
	put(name, strlen(name) + 1);
	put("\xcc\xcc\xc3", 3);
}

static void put_move(uint64_t from, uint64_t to, uint64_t bytes, uint64_t index)
{
	begin_record(1, 48);
	put_u32(1234);
	put_u32(1235);
	put_u64(to);
	put_u64(from);
	put_u64(to);
	put_u64(bytes);
	put_u64(index);
}

/* A record of a kind that the reader skips: lines, unwind tables, kinds of later versions. */
static void put_other(uint32_t kind)
{
	begin_record(kind, 24);
	put("0123456789abcdef01234567", 24);
}

static char *save(size_t bytes)
{
	char *path = tmpdir_path("jit.dump");
	FILE *out = fopen(path, "we");
	ck_assert_uint_eq(fwrite(file.data, 1, bytes, out), bytes);
	ck_assert_int_eq(fclose(out), 0);
	return path;
}

static void check_text(size_t bytes, const char *want)
{
	struct bytes_out text = {0};
	HT_FREED char *path = save(bytes);
	FILE *in = fopen(path, "re");
	ck_assert_int_eq(fseek(in, 4, SEEK_SET), 0);
	ck_no_err(jitdump_convert(in, path, MANY_BYTES, &text));
	ck_assert_uint_eq(text.length, strlen(want));
	if (text.length)
		ck_assert_mem_eq(text.data, want, text.length);
	fclose(in);
	bytes_out_deinit(&text);
}

HT_TEST(loaded_and_moved)
{
	begin(1, EM_X86_64, 0);
	put_load(0x1000, 0x20, 7, "first /a b/c.js:1");
	put_other(2);
	put_load(0x2000, 0x30, 8, "second");
	put_other(4);
	put_move(0x1000, 0x7f0000003000, 0x20, 7);
	put_move(0x9000, 0x4000, 0x20, 9);
	put_other(77);
	put_load(0x2000, 0x10, 7, "seventh\nagain");
	put_move(0x2000, 0x5000, 0x10, 7);
	check_text(file.length,
		"1000 20 first /a b/c.js:1\n2000 30 second\n7f0000003000 20 first /a b/c.js:1\n"
		"2000 10 seventh again\n5000 10 seventh again\n");
	begin(1, EM_X86_64, 12);
	put_load(0x1000, 0x20, 7, "behind a longer header");
	check_text(file.length, "1000 20 behind a longer header\n");
}

/* The file is cut: a name that is complete is found, even if the rest of its record is missing. */
HT_TEST(cut_anywhere)
{
	begin(1, EM_X86_64, 0);
	put_load(0x1000, 0x20, 7, "first");
	size_t first = file.length;
	put_move(0x1000, 0x2000, 0x20, 7);
	for (size_t bytes = 40; bytes < file.length; bytes++)
		check_text(bytes, bytes < first - 3 ? "" : "1000 20 first\n");
}

HT_TEST(a_record_that_makes_no_sense_ends_it)
{
	begin(1, EM_X86_64, 0);
	put_load(0x1000, 0x20, 7, "first");
	size_t at = file.length;
	put_load(0x2000, 0x20, 8, "second");
	for (uint32_t bytes = 0; bytes < 16; bytes++) {
		memcpy(file.data + at + 4, &bytes, sizeof(bytes));
		check_text(file.length, "1000 20 first\n");
	}
	/* The record's length ends within its name. */
	const uint32_t within = 16 + 40 + 3;
	memcpy(file.data + at + 4, &within, sizeof(within));
	check_text(file.length, "1000 20 first\n");
}

HT_TEST(others_are_refused)
{
	struct perf_map map;
	const struct {
		uint32_t version, machine;
	} other[] = {{2, EM_X86_64}, {1, EM_AARCH64}, {0, EM_X86_64}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(other); i++) {
		begin(other[i].version, other[i].machine, 0);
		char *path = save(file.length);
		ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "no jitdump of version 1");
		ck_assert_ptr_null(map.text);
		free(path);
	}
	begin(1, EM_X86_64, 0);
	char *path = save(20);
	ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "no jitdump of version 1");
	free(path);
}

HT_TEST(names_are_bounded)
{
	char name[TRACE_STRING_MAX + 100], want[sizeof(name) + 20];
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	begin(1, EM_X86_64, 0);
	put_load(0x1000, 0x20, 7, name);
	put_move(0x1000, 0x2000, 0x20, 7);
	put_load(0x3000, 0x20, 8, "");
	snprintf(want, sizeof(want), "1000 20 %.*s\n", (int)TRACE_STRING_MAX, name);
	char *both = NULL;
	ck_assert_int_gt(asprintf(&both, "%s2000 20 %.*s\n", want, (int)TRACE_STRING_MAX, name), 0);
	check_text(file.length, both);
	free(both);
	struct bytes_out text = {0};
	HT_FREED char *path = save(file.length);
	FILE *in = fopen(path, "re");
	ck_assert_int_eq(fseek(in, 4, SEEK_SET), 0);
	ck_err_says(jitdump_convert(in, path, TRACE_STRING_MAX, &text), HT_ERR_USAGE, "names");
	fclose(in);
	bytes_out_deinit(&text);
}

HT_TEST(read_as_a_perf_map)
{
	struct perf_map map;
	struct rec_string name[2];
	const uint64_t address[] = {0x1008, 0x2008};
	begin(1, EM_X86_64, 0);
	put_load(0x1000, 0x20, 7, "old");
	put_load(0x1000, 0x10, 8, "new");
	HT_FREED char *path = save(file.length);
	ck_no_err(perf_map_read(&map, path));
	ck_no_err(perf_map_find(&map, address, 2, name));
	ck_assert(name[0].length == 3 && !memcmp(name[0].data, "new", 3));
	ck_assert_uint_eq(name[1].length, 0);
	perf_map_deinit(&map);
}

HT_TEST(files_of_any_content)
{
	uint64_t random = 3;
	for (unsigned i = 0; i < 1000; i++) {
		struct bytes_out text = {0};
		begin(1, EM_X86_64, 0);
		put_load(0x1000, 0x20, random_below(&random, 3), "first");
		put_move(0x1000, 0x2000, 0x20, random_below(&random, 3));
		put_load(0x3000, 0x20, random_below(&random, 3), "second");
		for (unsigned k = 0; k < 4; k++)
			file.data[40 + random_below(&random, file.length - 40)] =
				(uint8_t)random_below(&random, 256);
		FILE *in = fmemopen(file.data, file.length, "r");
		ck_assert_int_eq(fseek(in, 4, SEEK_SET), 0);
		ck_no_err(jitdump_convert(in, "file", MANY_BYTES, &text));
		ck_assert(!text.length || text.data[text.length - 1] == '\n');
		fclose(in);
		bytes_out_deinit(&text);
	}
}

HT_SUITE("analyzer/jitdump")
