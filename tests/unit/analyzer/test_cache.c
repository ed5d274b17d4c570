/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that were looked up before: for the same files only, in a directory of this user's alone,
 * and within bounds.
 */
#include "analyzer/symbols/cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static struct cache cache;
static struct elf_file none = {.fd = -1};
static char *path_of(const char *name)
{
	static char *path;
	free(path);
	path = tmpdir_path(name);
	return path;
}

static const char *const build_id[] = {"aa11", "bb22", "cc33"};

static void begin(void)
{
	setenv("XDG_CACHE_HOME", path_of("cache"), 1);
	cache_open(&cache);
}

static void add(struct cache_names *names, uint64_t offset, const char *function)
{
	const struct rec_frame frame = {
		.function = {function, strlen(function)}, .file = {"a.c", 3}, .line = 7};
	ck_no_err(cache_add(names, offset, &frame, 1));
}

static void store(const char *id, const struct elf_file *file, const char *function)
{
	struct cache_names names = {0};
	add(&names, 0x10, function);
	cache_store(&cache, id, file, &none, &names);
	cache_names_deinit(&names);
}

static bool has(const char *id, const struct elf_file *file, const char *function)
{
	struct cache_names names;
	struct rec_symbol symbol;
	cache_load(&cache, id, file, &none, &names);
	const bool found = cache_find(&names, 0x10, &symbol);
	if (found)
		ck_assert(symbol.frame_count == 1 && symbol.frame[0].line == 7 &&
			  symbol.frame[0].function.length == strlen(function) &&
			  !memcmp(symbol.frame[0].function.data, function, strlen(function)));
	cache_names_deinit(&names);
	return found;
}

HT_TEST(stored_names_are_found)
{
	struct cache_names names = {0};
	struct rec_symbol symbol;
	begin();
	ck_assert_int_ge(cache.directory, 0);
	add(&names, 0x10, "first");
	ck_no_err(cache_add(&names, 0x20, NULL, 0)); /* it has no name, and that is known */
	names.state = REC_NAMES_STRIPPED;
	cache_store(&cache, build_id[0], &none, &none, &names);
	cache_names_deinit(&names);
	ck_assert(has(build_id[0], &none, "first"));
	ck_assert(!has(build_id[1], &none, "first"));
	cache_load(&cache, build_id[0], &none, &none, &names);
	ck_assert_uint_eq(names.state, REC_NAMES_STRIPPED);
	ck_assert(cache_find(&names, 0x20, &symbol) && symbol.frame_count == 0);
	ck_assert(!cache_find(&names, 0x30, &symbol));
	/* A later store adds to the names. */
	add(&names, 0x30, "later");
	cache_store(&cache, build_id[0], &none, &none, &names);
	cache_names_deinit(&names);
	cache_load(&cache, build_id[0], &none, &none, &names);
	ck_assert(cache_find(&names, 0x10, &symbol) && cache_find(&names, 0x30, &symbol));
	cache_names_deinit(&names);
	cache_close(&cache);
}

HT_TEST(another_file_is_looked_up_anew)
{
	const char *path = path_of("file");
	struct elf_file file = {.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
	begin();
	store(build_id[0], &file, "function");
	ck_assert(has(build_id[0], &file, "function"));
	ck_assert(!has(build_id[0], &none, "function"));
	ck_assert_int_eq(write(file.fd, "x", 1), 1);
	ck_assert(!has(build_id[0], &file, "function"));
	close(file.fd);
	cache_close(&cache);
}

/* The missing file may be there the next time. */
HT_TEST(names_that_may_get_more_are_not_kept)
{
	struct cache_names names = {.state = REC_NAMES_SPLIT};
	begin();
	add(&names, 0x10, "function");
	cache_store(&cache, build_id[0], &none, &none, &names);
	cache_names_deinit(&names);
	ck_assert(!has(build_id[0], &none, "function"));
	store("", &none, "function");
	store("../escaped", &none, "function");
	ck_assert_int_ne(access(path_of("cache/heaptap/escaped"), F_OK), 0);
	cache_close(&cache);
}

HT_TEST(those_used_least_lately_make_room)
{
	begin();
	for (unsigned i = 0; i < 2; i++) {
		store(build_id[i], &none, "function");
		const struct timespec times[] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
		ck_assert_int_eq(utimensat(cache.directory, build_id[i], times, 0), 0);
	}
	struct stat status;
	ck_assert_int_eq(fstatat(cache.directory, build_id[0], &status, 0), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0600);
	ck_assert(has(build_id[0], &none, "function")); /* used: the other file is older now */
	cache.most = (uint64_t)status.st_size * 5 / 2;
	store(build_id[2], &none, "function");
	ck_assert(has(build_id[0], &none, "function"));
	ck_assert(!has(build_id[1], &none, "function"));
	ck_assert(has(build_id[2], &none, "function"));
	cache_close(&cache);
}

HT_TEST(a_directory_of_others_is_not_used)
{
	begin();
	cache_close(&cache);
	ck_assert_int_eq(chmod(path_of("cache/heaptap/symbols"), 0755), 0);
	cache_open(&cache);
	ck_assert_int_lt(cache.directory, 0);
	store(build_id[0], &none, "function");
	ck_assert(!has(build_id[0], &none, "function"));
	ck_assert_int_eq(rmdir(path_of("cache/heaptap/symbols")), 0);
	ck_assert_int_eq(symlink("/tmp", path_of("cache/heaptap/symbols")), 0);
	cache_open(&cache);
	ck_assert_int_lt(cache.directory, 0);
}

HT_SUITE("analyzer/cache")
