/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/cache.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "attach/memory/checksum.h"
#include "tests/support/random.h"
#include "tests/unit/attach/cachestage.h"

#define FILE_MAX 8192u

/* Offsets in the file's header. The checksum is of the bytes from SUMMED_AT on. */
#define COMPILER_AT  8u
#define CHECKSUM_AT  16u
#define SUMMED_AT    24u
#define HEADER_BYTES 136u

static size_t file_read(uint8_t data[FILE_MAX])
{
	char *path = file_path();
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, data, FILE_MAX);
	ck_assert_int_gt(got, 0);
	ck_assert_int_lt(got, FILE_MAX);
	close(fd);
	free(path);
	return (size_t)got;
}

static void file_write(const uint8_t *data, size_t bytes)
{
	char *path = file_path();
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
	close(fd);
	free(path);
}

/* The file holds no valid entry: loading removes it, and a store replaces it. */
static void check_refused(struct cache *cache)
{
	char *path = file_path();
	ck_assert(!loads(cache));
	ck_assert(!exists(path));
	cache_store(cache, &key, &input, table);
	ck_assert(loads(cache));
	free(path);
}

/* A cache that holds one entry, and the bytes of its file. */
static struct cache *opened_with_entry(uint8_t data[FILE_MAX], size_t *ret_bytes)
{
	setup();
	struct cache *cache = opened();
	cache_store(cache, &key, &input, table);
	*ret_bytes = file_read(data);
	return cache;
}

HT_TEST(keeps_what_it_is_given)
{
	struct stat st;
	setup();
	struct cache *cache = opened();
	ck_assert(!loads(cache));
	cache_store(cache, &key, &input, table);
	ck_assert(loads(cache));
	cache_close(cache);
	cache = opened();
	ck_assert(loads(cache));
	cache_store(cache, &key, &input, table);
	ck_assert(loads(cache));
	cache_close(cache);
	ck_assert_uint_eq(files_there(), 1);
	ck_assert(stat(place, &st) == 0 && (st.st_mode & 07777) == 0700);
	char *path = file_path();
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	free(path);
}

HT_TEST(without_cache_or_build_id_there_is_nothing)
{
	static const uint8_t id[65];
	const size_t unusable[] = {0, 65, SIZE_MAX};
	struct cache_entry entry;
	setup();
	struct cache *cache = opened();
	for (size_t i = 0; i < HT_ARRAY_SIZE(unusable); i++) {
		const struct cache_key none = {id, unusable[i]};
		cache_store(cache, &none, &input, table);
		ck_assert(!cache_load(cache, &none, &entry));
	}
	cache_store(NULL, &key, &input, table);
	ck_assert(!cache_load(NULL, &key, &entry));
	cache_close(NULL);
	ck_assert_uint_eq(files_there(), 0);
	const struct cache_key longest = {id, 64};
	cache_store(cache, &longest, &input, table);
	ck_assert(cache_load(cache, &longest, &entry));
	cache_entry_deinit(&entry);
	cache_close(cache);
}

HT_TEST(every_changed_byte_is_found)
{
	uint8_t data[FILE_MAX];
	size_t bytes;
	struct cache *cache = opened_with_entry(data, &bytes);
	for (size_t at = 0; at < bytes; at++) {
		for (unsigned change = 1; change < 256; change += 127) {
			data[at] ^= (uint8_t)change;
			file_write(data, bytes);
			data[at] ^= (uint8_t)change;
			ck_assert_msg(!loads(cache), "byte %zu", at);
		}
	}
	file_write(data, bytes);
	ck_assert(loads(cache));
	cache_close(cache);
}

HT_TEST(every_other_length_is_found)
{
	uint8_t data[FILE_MAX] = {0};
	size_t bytes;
	struct cache *cache = opened_with_entry(data, &bytes);
	for (size_t kept = 0; kept < bytes + 16; kept++) {
		file_write(data, kept);
		ck_assert_int_eq(loads(cache), kept == bytes);
	}
	file_write(data, bytes);
	char *path = file_path();
	ck_assert_int_eq(truncate(path, CACHE_ENTRY_MAX + 1), 0);
	free(path);
	check_refused(cache);
	cache_close(cache);
}

static void sum_up(uint8_t *data, size_t bytes)
{
	uint64_t sizes[2];
	memcpy(sizes, data + SUMMED_AT + 24, sizeof(sizes));
	size_t eh_frame = sizes[0], in_table = sizes[1];
	uint64_t sum = checksum(0, data + SUMMED_AT, HEADER_BYTES - SUMMED_AT);
	/* Wrong sizes are refused before the sum. */
	if (in_table <= bytes - HEADER_BYTES && eh_frame == bytes - HEADER_BYTES - in_table) {
		sum = checksum(sum, data + HEADER_BYTES, in_table);
		sum = checksum(sum, data + HEADER_BYTES + in_table, eh_frame);
	}
	memcpy(data + CHECKSUM_AT, &sum, sizeof(sum));
}

/* An attacker who can write the file can also compute its checksum. */
HT_TEST(a_right_checksum_makes_no_right_table)
{
	uint8_t data[FILE_MAX], copy[FILE_MAX];
	uint64_t random = 5;
	unsigned loaded = 0, refused = 0;
	size_t bytes;
	struct cache *cache = opened_with_entry(data, &bytes);
	memcpy(copy, data, bytes);
	sum_up(copy, bytes);
	ck_assert_mem_eq(copy, data, bytes);
	for (unsigned i = 0; i < 20000; i++) {
		struct cache_entry entry;
		memcpy(copy, data, bytes);
		for (uint64_t n = random_below(&random, 3) + 1; n; n--) {
			size_t at = SUMMED_AT + random_below(&random, bytes - SUMMED_AT);
			copy[at] = random_below(&random, 2) ? 0xff : (uint8_t)random_next(&random);
		}
		sum_up(copy, bytes);
		file_write(copy, bytes);
		if (!cache_load(cache, &key, &entry)) {
			refused++;
			continue;
		}
		loaded++;
		ck_assert(table_is_sound(entry.table, entry.table->bytes));
		ck_assert_uint_le(entry.table->bytes, bytes);
		ck_assert_uint_lt(entry.input.eh_frame_bytes, bytes);
		cache_entry_deinit(&entry);
	}
	ck_assert_uint_gt(loaded, 100);
	ck_assert_uint_gt(refused, 100);
	cache_close(cache);
}

HT_TEST(sizes_that_overflow_are_refused)
{
	uint8_t data[FILE_MAX];
	size_t bytes;
	struct cache *cache = opened_with_entry(data, &bytes);
	const uint64_t sizes[][2] = {{UINT64_MAX, bytes - HEADER_BYTES + 1}, {bytes, -HEADER_BYTES},
		{0, bytes - HEADER_BYTES}, {bytes - HEADER_BYTES, 0},
		{bytes - HEADER_BYTES - 8, 8}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sizes); i++) {
		memcpy(data + SUMMED_AT + 24, sizes[i], sizeof(sizes[i]));
		sum_up(data, bytes);
		file_write(data, bytes);
		check_refused(cache);
	}
	cache_close(cache);
}

HT_TEST(another_compilers_table_is_not_used)
{
	uint8_t data[FILE_MAX];
	size_t bytes;
	struct cache *cache = opened_with_entry(data, &bytes);
	data[COMPILER_AT] ^= 1;
	file_write(data, bytes);
	check_refused(cache);
	cache_close(cache);
}

HT_TEST(an_entry_under_another_name_is_not_used)
{
	static const uint8_t other_id[20] = {0xca, 0xfe};
	const struct cache_key other = {other_id, sizeof(other_id)};
	uint8_t data[FILE_MAX];
	setup();
	struct cache *cache = opened();
	cache_store(cache, &other, &input, table);
	char *path, *own = file_path();
	ck_assert_int_gt(asprintf(&path, "%s/cafe%036d.table", place, 0), 0);
	ck_assert_int_eq(rename(path, own), 0);
	ck_assert_uint_gt(file_read(data), HEADER_BYTES);
	check_refused(cache);
	free(path);
	free(own);
	cache_close(cache);
}

HT_TEST(only_a_file_of_ours_is_an_entry)
{
	setup();
	struct cache *cache = opened();
	char *path = file_path(), *elsewhere = tmpdir_path("elsewhere");
	cache_store(cache, &key, &input, table);
	ck_assert_int_eq(rename(path, elsewhere), 0);
	ck_assert_int_eq(symlink(elsewhere, path), 0);
	check_refused(cache);
	ck_assert(exists(elsewhere));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	check_refused(cache);
	ck_assert_int_eq(chmod(path, 0620), 0);
	check_refused(cache);
	ck_assert_int_eq(chmod(path, 0602), 0);
	check_refused(cache);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
		check_refused(cache);
	}
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert(!loads(cache));
	cache_store(cache, &key, &input, table);
	ck_assert(!loads(cache));
	ck_assert_uint_eq(files_there(), 1);
	free(path);
	free(elsewhere);
	cache_close(cache);
}

HT_SUITE("attach/unwind/cache")
