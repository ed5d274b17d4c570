/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that the program has given back and glibc keeps for the same thread (tcache, as of 2.30 to
 * 2.41). No arena counts them as free. Each thread's are found through its control block, before
 * which the variable lies that points at it.
 */
#pragma once

#include "attach/heap/glibc/tunables.h"
#include "attach/heap/view/threads.h"

struct tcache {
	uint64_t bytes;	  /* in those that were found */
	unsigned threads; /* whose control block was found */
	unsigned known;	  /* of these, whose cache was read, or who have none */
};

struct tcache_places {
	struct threads threads;
	uint64_t distance; /* of the variable that holds the cache's address, before that; 0: not
			      known */
};

/* Looks for the threads, and where they have their caches. */
HT_MUST_CHECK
struct ht_err *tcache_find(
	struct view *view, const struct tunables *tunables, struct tcache_places *ret);
void tcache_places_deinit(struct tcache_places *places);
struct tcache tcache_read(
	struct view *view, const struct tunables *tunables, const struct tcache_places *places);
/* The most that the cache of one thread can hold. */
uint64_t tcache_max_bytes(const struct tunables *tunables);
