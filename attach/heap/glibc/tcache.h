/* SPDX-License-Identifier: Apache-2.0
 *
 * Freed blocks that glibc keeps for the same thread (tcache, 2.30 to 2.41). No arena counts them as
 * free. A variable before the thread's control block points at its cache.
 */
#pragma once

#include "attach/heap/glibc/tunables.h"
#include "attach/heap/view/threads.h"

struct tcache {
	uint64_t bytes;	  /* in the caches that were found */
	unsigned threads; /* with a control block that was found */
	unsigned known;	  /* of these: cache read, or no cache */
};

struct tcache_places {
	struct threads threads;
	uint64_t distance; /* from the control block back to the variable with the cache's address;
			      0: unknown */
};

/* Looks for the threads and the places of their caches. Free with tcache_places_deinit. */
HT_MUST_CHECK
struct ht_err *tcache_find(
	struct view *view, const struct tunables *tunables, struct tcache_places *ret);
void tcache_places_deinit(struct tcache_places *places);
struct tcache tcache_read(
	struct view *view, const struct tunables *tunables, const struct tcache_places *places);
/* Maximum contents of one thread's cache. */
uint64_t tcache_max_bytes(const struct tunables *tunables);
