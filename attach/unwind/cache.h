/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps unwind tables in files, one for each build-id, for the next attach. An optimisation only:
 * after any failure the caller compiles the table and does not learn of the failure.
 *
 * An entry contains the .eh_frame from which it was compiled. The target chooses its build-id, so
 * the caller compares these bytes instead: if they are equal, the table is the one that it would
 * compile. The directory and its files must belong to the user and be writable by no one else.
 * Files are hostile all the same, see cache_load. An entry appears complete, by a rename.
 */
#pragma once

#include "attach/unwind/table.h"

/* The size of all files together; beyond it, the least recently used are removed. */
#define CACHE_BYTES_MAX (256ul << 20)
/* Larger entries are not stored. */
#define CACHE_ENTRY_MAX (64ul << 20)

struct cache; /* NULL: a cache that finds and stores nothing */

/* Opens $XDG_CACHE_HOME/heaptap and creates it if it is missing. Without that variable
 * /var/cache/heaptap for root and $HOME/.cache/heaptap for others. NULL: no usable directory. */
struct cache *cache_open(void);
/* If anything was stored, removes what exceeds CACHE_BYTES_MAX. */
void cache_close(struct cache *cache);

/* A module's build-id, 1 to 64 bytes. With 0 bytes nothing is found or stored. */
struct cache_key {
	const uint8_t *build_id;
	size_t bytes;
};

struct cache_entry {
	struct unwind_input input; /* .eh_frame with its terminator */
	struct abi_table *table;   /* as table_is_sound requires */
};

/* Loads the entry for `key`. Removes a file that is damaged or comes from another compiler. False:
 * there is none. Otherwise free `ret` with cache_entry_deinit. */
HT_MUST_CHECK
bool cache_load(struct cache *cache, const struct cache_key *key, struct cache_entry *ret);
void cache_entry_deinit(struct cache_entry *entry);
/* Stores `table` as the compilation of `input`; input->eh_frame_bytes must include the terminator.
 * Copies both. */
void cache_store(struct cache *cache, const struct cache_key *key, const struct unwind_input *input,
	const struct abi_table *table);
