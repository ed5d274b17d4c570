/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches names by build-id in $XDG_CACHE_HOME/heaptap/symbols (else ~/.cache), so that debug
 * information is read only once. A cache file is valid only for the files from which it was made.
 * A file that cannot be read or written is no error: without a cache, names are looked up.
 */
#pragma once

#include "format/map.h"
#include "analyzer/symbols/elf_file.h"

#define CACHE_BYTES_MAX	     (512ull << 20) /* of all files together */
#define CACHE_FILE_BYTES_MAX (64ull << 20)

struct cache {
	int directory; /* -1: there is none */
	uint64_t most; /* bytes of all files together */
};

/* Opens the directory; makes it if it is missing. A directory of another user, or one that other
 * users can access, is not used. */
void cache_open(struct cache *cache);
void cache_close(struct cache *cache);

/* The names of one module. Zero-initialised is empty and valid. */
struct cache_names {
	struct bytes_out records; /* symbol records */
	struct map by_offset;	  /* offset in the module -> offset in `records` */
	uint64_t state;		  /* enum rec_names_state */
	size_t kept;		  /* bytes of the records loaded from the cache */
};

void cache_names_deinit(struct cache_names *names);
/* Loads the cached names of `build_id` if they were made from these files; otherwise `ret` is
 * empty. */
void cache_load(const struct cache *cache, const char *build_id, const struct elf_file *file,
	const struct elf_file *debug, struct cache_names *ret);
/* Finds an offset; false: never looked up. An offset that was looked up without result is found,
 * without frames. `ret` is valid until the next cache_add. */
bool cache_find(const struct cache_names *names, uint64_t offset, struct rec_symbol *ret);
/* Adds the result of a lookup; `frame_count` may be 0. Does nothing if the offset is known or the
 * cache file would exceed CACHE_FILE_BYTES_MAX. */
HT_MUST_CHECK
struct ht_err *cache_add(struct cache_names *names, uint64_t offset, const struct rec_frame *frame,
	uint64_t frame_count);
/* Writes the names if any were added and names->state does not say that a file is missing, which
 * may exist the next time; then removes the least recently used files beyond cache->most. */
void cache_store(const struct cache *cache, const char *build_id, const struct elf_file *file,
	const struct elf_file *debug, const struct cache_names *names);
