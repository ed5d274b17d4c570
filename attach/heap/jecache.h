/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that the program has given back and jemalloc keeps for the same thread (tcache, of its
 * 5.3); its map counts them as handed out. A cache is among its thread's variables, in two parts
 * that name each other, and all those of an arena are in one ring: also those whose threads are not
 * found, and those that belong to none.
 */
#pragma once

#include "attach/heap/threads.h"

struct jecache {
	uint64_t bytes;	    /* in those that were found */
	uint64_t max_bytes; /* the most that one of them can hold */
	unsigned count;	    /* that were found */
	unsigned known;	    /* threads whose cache is one of them, or who have none */
	bool whole;	    /* no ring was being changed */
};

/* Of a cache, before its thread's control block; 0: no thread has one that can be found. */
uint64_t jecache_find(struct view *view, const struct threads *threads);
HT_MUST_CHECK
struct ht_err *jecache_read(
	struct view *view, const struct threads *threads, uint64_t distance, struct jecache *ret);
