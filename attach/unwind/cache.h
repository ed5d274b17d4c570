/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps unwind tables in files, one for each build-id, for the next attach. A help and no more:
 * whatever is wrong with it, the caller compiles, and hears nothing of it.
 *
 * An entry holds the very .eh_frame that it was compiled from, so that nobody needs to believe a
 * build-id, which the target chooses: who compares the bytes has the table that he would compile.
 * The directory and all in it must be the user's alone. Files are hostile all the same: see
 * cache_load. An entry appears whole, by a rename.
 */
#pragma once

#include "attach/unwind/table.h"

/* Of all files together. Those whose use is longest ago are removed for it. */
#define CACHE_BYTES_MAX (256ul << 20)
/* Larger entries are not kept. */
#define CACHE_ENTRY_MAX (64ul << 20)

struct cache; /* NULL is one that never has anything and keeps nothing */

/*
 * $XDG_CACHE_HOME/heaptap, made where it is missing. Without that variable /var/cache/heaptap for
 * root and $HOME/.cache/heaptap for others. NULL: none can be used.
 */
struct cache *cache_open(void);
/* Removes what exceeds CACHE_BYTES_MAX if anything was stored. */
void cache_close(struct cache *cache);

/* A module's build-id, 1 to 64 bytes; without one (0 bytes) nothing is kept. */
struct cache_key {
	const uint8_t *build_id;
	size_t bytes;
};

struct cache_entry {
	struct unwind_input input; /* .eh_frame with its terminator */
	struct abi_table *table;   /* table_is_sound */
};

/* What is kept for `key`. A file that is damaged, or that another compiler made, is removed. False:
 * nothing is kept. Otherwise `ret` is to be given to cache_entry_deinit. */
HT_MUST_CHECK
bool cache_load(struct cache *cache, const struct cache_key *key, struct cache_entry *ret);
void cache_entry_deinit(struct cache_entry *entry);
/* Keeps `table` as what `input` compiles to: input->eh_frame_bytes must end with the terminator. */
void cache_store(struct cache *cache, const struct cache_key *key, const struct unwind_input *input,
	const struct abi_table *table);
