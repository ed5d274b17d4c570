/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of attach/unwind/cache: one entry of a cache of unwind tables, and the
 * directory in which the test keeps the cache. Included once by a test program.
 */
#pragma once

#include <dirent.h>
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "attach/unwind/cache.h"
#include "tests/support/ehwriter.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define NOBODY 65534 /* UID and GID of an unprivileged user */

static const uint8_t build_id[20] = {0xca, 0xfe, 1, 2, 3};
static const struct cache_key key = {build_id, sizeof(build_id)};
static const char name[] = "cafe010203000000000000000000000000000000.table";

static struct ehwriter writer = {.vaddr = 0x8000};
static struct unwind_input input;
static struct abi_table *table;

static char *home;  /* XDG_CACHE_HOME */
static char *place; /* the cache's directory, in `home` */

static inline void setup(void)
{
	struct ehcie cie = EHCIE_USUAL;
	struct unwind_stats stats;
	size_t at = ehwriter_cie(&writer, &cie);
	for (uint64_t i = 0; i < 6; i++)
		ehwriter_fde(&writer, at, &cie, 0x1000 + i * 0x150, 0x100,
			EHPROGRAM(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16));
	ehwriter_end(&writer);
	input = (struct unwind_input){.eh_frame = writer.out.data,
		.eh_frame_bytes = writer.out.length,
		.eh_frame_vaddr = writer.vaddr,
		.text_lo = 0x1000,
		.text_hi = 0x2000};
	ck_no_err(table_compile(&input, &table, &stats));
	ck_assert_uint_eq(stats.section_bytes, writer.out.length);
	home = tmpdir_path("home");
	place = tmpdir_path("home/heaptap");
	ck_assert_int_eq(setenv("XDG_CACHE_HOME", home, 1), 0);
}

static inline struct cache *opened(void)
{
	struct cache *cache = cache_open();
	ck_assert_ptr_nonnull(cache);
	return cache;
}

static inline char *file_path(void)
{
	char *path;
	ck_assert_int_gt(asprintf(&path, "%s/%s", place, name), 0);
	return path;
}

static inline bool exists(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0;
}

static inline unsigned files_there(void)
{
	DIR *dir = opendir(place);
	unsigned count = 0;
	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Returns true if the entry loads, after a check that its content is what was stored. */
static inline bool loads(struct cache *cache)
{
	struct cache_entry entry;
	if (!cache_load(cache, &key, &entry))
		return false;
	ck_assert_uint_eq(entry.input.text_lo, input.text_lo);
	ck_assert_uint_eq(entry.input.text_hi, input.text_hi);
	ck_assert_uint_eq(entry.input.eh_frame_vaddr, input.eh_frame_vaddr);
	ck_assert_uint_eq(entry.input.eh_frame_bytes, input.eh_frame_bytes);
	ck_assert_mem_eq(entry.input.eh_frame, input.eh_frame, input.eh_frame_bytes);
	ck_assert_uint_eq(entry.table->bytes, table->bytes);
	ck_assert_mem_eq(entry.table, table, table->bytes);
	cache_entry_deinit(&entry);
	return true;
}
