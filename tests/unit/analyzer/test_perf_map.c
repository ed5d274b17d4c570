/* SPDX-License-Identifier: Apache-2.0
 *
 * Perf maps: the last line that covers an address names it; files of any content are bounded.
 */
#include "analyzer/symbols/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"
#include "tests/support/tmpdir.h"

#define NAMES_MAX 64u

static struct rec_string name[NAMES_MAX];

static char *put_file(const char *text, size_t length)
{
	char *path = tmpdir_path("perf.map");
	FILE *file = fopen(path, "we");
	ck_assert_uint_eq(fwrite(text, 1, length, file), length);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}

static void load(struct perf_map *map, const char *text, size_t length)
{
	HT_FREED char *path = put_file(text, length);
	ck_no_err(perf_map_read(map, path));
}

static void check(const char *text, uint64_t address, const char *want)
{
	struct perf_map map;
	load(&map, text, strlen(text));
	ck_no_err(perf_map_find(&map, &address, 1, name));
	ck_assert_msg(name[0].length == strlen(want) &&
			      (!name[0].length || !memcmp(name[0].data, want, name[0].length)),
		"%.*s", (int)name[0].length, name[0].data ? name[0].data : "");
	perf_map_deinit(&map);
}

HT_TEST(lines_have_start_size_and_name)
{
	check("1000 10 f\n", 0x1000, "f");
	check("1000 10 f\n", 0x100f, "f");
	check("1000 10 f\n", 0x1010, "");
	check("1000 10 f\n", 0xfff, "");
	check("0x1000 0x10 f\n", 0x1001, "f");
	check("7FFFabcd0000 aB JS:*churn /a b/c.js:3:5\r\n", 0x7fffabcd00aa,
		"JS:*churn /a b/c.js:3:5");
	check("1000 10 cut while it was writ", 0x1000, "cut while it was writ");
	check("ffffffffffffff00 ffffffffffffffff all\n", UINT64_MAX - 1, "all");
	check("1000 0 nothing\n2000 1 x\n", 0x1000, "");
}

HT_TEST(the_last_line_counts)
{
	const char *text = "1000 100 old\n1040 20 new\n1000 8 newest\n5000 1 far\n";
	check(text, 0x1000, "newest");
	check(text, 0x1008, "old");
	check(text, 0x1040, "new");
	check(text, 0x105f, "new");
	check(text, 0x1060, "old");
}

HT_TEST(other_lines_are_passed_over)
{
	static const char *const other[] = {"", "x", "1000", "1000 ", "1000 10", "1000 10 ",
		" 1000 10 f", "1000 -1 f", "1000 1g f", "0x 10 f", "1000  10 f",
		"11111111111111111 10 f", "1000 10000000000000000 f", "\x80\xff 1 f"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(other); i++) {
		char text[128];
		snprintf(text, sizeof(text), "%s\n2000 10 g\n%s\n", other[i], other[i]);
		check(text, 0x1000, "");
		check(text, 0x2000, "g");
	}
	const char zeros[] = "\0\0 1\n2000 10 g\n1000 10 a\0b\n";
	struct perf_map map;
	load(&map, zeros, sizeof(zeros) - 1);
	const uint64_t address[] = {0x1000, 0x2000};
	ck_no_err(perf_map_find(&map, address, 2, name));
	ck_assert_uint_eq(name[0].length, 3);
	ck_assert_uint_eq(name[1].length, 1);
	perf_map_deinit(&map);
}

HT_TEST(long_names_are_cut)
{
	char text[10000] = "1000 10 ";
	memset(text + 8, 'a', sizeof(text) - 8);
	struct perf_map map;
	load(&map, text, sizeof(text));
	const uint64_t address = 0x1000;
	ck_no_err(perf_map_find(&map, &address, 1, name));
	ck_assert_uint_eq(name[0].length, TRACE_STRING_MAX);
	perf_map_deinit(&map);
}

HT_TEST(names_a_file_that_is_no_map)
{
	struct perf_map map;
	char *path = put_file("root:x:0:0:root\n", 16);
	ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "no perf map");
	ck_assert_ptr_null(map.text);
	free(path);
	path = put_file("", 0);
	ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "no perf map");
	ck_assert_int_eq(truncate(path, (off_t)PERF_MAP_MAX_BYTES + 1), 0);
	ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "too long");
	ck_assert_int_eq(unlink(path), 0);
	ck_err_says(perf_map_read(&map, path), HT_ERR_SYS, path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_err_says(perf_map_read(&map, path), HT_ERR_USAGE, "not a regular file");
	free(path);
	ck_err_says(perf_map_read(&map, "/dev/zero"), HT_ERR_USAGE, "not a regular file");
}

static size_t own_lines(const char *path, time_t since)
{
	struct perf_map map;
	perf_map_take_own(&map,
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW), path, since);
	size_t length = map.length;
	perf_map_deinit(&map);
	return length;
}

/* A map at the target's path that another process wrote is not the target's own, and is refused. */
HT_TEST(own_maps_only)
{
	struct stat status;
	char *path = put_file("1000 10 f\n", 10), *link = tmpdir_path("link");
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(own_lines(path, status.st_mtime), 10);
	ck_assert_uint_eq(own_lines(path, status.st_mtime + 1), 0);
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_uint_eq(own_lines(link, 0), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 12345, 12345), 0);
		ck_assert_uint_eq(own_lines(path, 0), 0);
	} else {
		printf("skipped: perf_map: only root may give a file away\n");
	}
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_uint_eq(own_lines(path, 0), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_uint_eq(own_lines(path, 0), 0);
	ck_assert_int_eq(unlink(path), 0);
	free(put_file("no map\n", 7));
	ck_assert_uint_eq(own_lines(path, 0), 0);
	free(path);
	free(link);
}

struct range {
	uint64_t from, to;
};

/* Checks the result by comparing every address with every line. */
static void compare(uint64_t *random)
{
	char text[NAMES_MAX * 40];
	struct range range[NAMES_MAX];
	uint64_t address[NAMES_MAX], at = 0;
	size_t length = 0, lines = 1 + random_below(random, NAMES_MAX);
	size_t count = random_below(random, NAMES_MAX);
	for (size_t i = 0; i < lines; i++) {
		uint64_t from = random_below(random, 200), size = random_below(random, 60);
		range[i] = (struct range){from, from + size};
		length += (size_t)snprintf(
			text + length, sizeof(text) - length, "%lx %lx %zu\n", from, size, i);
	}
	for (size_t i = 0; i < count; i++)
		address[i] = at += 1 + random_below(random, 6);
	struct perf_map map;
	load(&map, text, length);
	ck_no_err(perf_map_find(&map, address, count, name));
	for (size_t i = 0; i < count; i++) {
		char want[24] = "";
		for (size_t k = 0; k < lines; k++)
			if (address[i] >= range[k].from && address[i] < range[k].to)
				snprintf(want, sizeof(want), "%zu", k);
		ck_assert_uint_eq(name[i].length, strlen(want));
		if (name[i].length)
			ck_assert_mem_eq(name[i].data, want, name[i].length);
	}
	perf_map_deinit(&map);
}

HT_TEST(any_ranges_at_any_addresses)
{
	uint64_t random = 1;
	for (unsigned i = 0; i < 300; i++)
		compare(&random);
}

HT_TEST(files_of_any_content)
{
	static const char alphabet[] = "01fFx  \n\n\r\0-g";
	const uint64_t address[] = {0, 1, 0xf, 0x10, 0xff, 0xfff, UINT64_MAX};
	uint64_t random = 2;
	for (unsigned i = 0; i < 1000; i++) {
		char text[200];
		size_t length = random_below(&random, sizeof(text));
		for (size_t k = 0; k < length; k++)
			text[k] = alphabet[random_below(&random, sizeof(alphabet) - 1)];
		/* Exactly as large as the text, so that a sanitizer sees a read beyond the end. */
		struct perf_map map = {.text = malloc(length), .length = length};
		memcpy(map.text, text, length);
		ck_no_err(perf_map_find(&map, address, HT_ARRAY_SIZE(address), name));
		for (size_t k = 0; k < HT_ARRAY_SIZE(address); k++)
			ck_assert(!memchr(name[k].data ? name[k].data : "", '\n', name[k].length));
		perf_map_deinit(&map);
	}
}

HT_SUITE("analyzer/perf_map")
