/* SPDX-License-Identifier: Apache-2.0
 *
 * Freed blocks that jemalloc keeps for reuse by the same thread (tcache); jemalloc's map of extents
 * counts them as handed out. A cache is among its thread's variables: one stack of blocks for each
 * size, in a row, and the words that identify the cache. If jemalloc keeps statistics, the caches
 * of an arena form a ring, which also has caches of threads that were not found and caches without
 * a thread.
 */
#pragma once

#include "attach/heap/view/threads.h"

struct jecache {
	uint64_t bytes;	    /* in the caches that were found */
	uint64_t max_bytes; /* maximum contents of one of them */
	unsigned count;	    /* caches that were found */
	unsigned known;	    /* threads with one of these caches, or with none */
	bool whole;	    /* no ring changed meanwhile */
};

/* Layouts of a cache. */
enum jecache_form {
	JECACHE_TWO,   /* since 5.3: two parts that name each other */
	JECACHE_FIRST, /* 5.1: one part */
	JECACHE_ONE,   /* 5.2: one part, with more between the small sizes and the others */
	JECACHE_FORMS,
};

struct jecache_place {
	enum jecache_form form;
	uint64_t distance; /* from its thread's control block back to the cache's first size; 0: no
			      cache was found */
};

/* `is_old`: look for the layouts before 5.3. */
struct jecache_place jecache_find(struct view *view, const struct threads *threads, bool is_old);
HT_MUST_CHECK
struct ht_err *jecache_read(struct view *view, const struct threads *threads,
	const struct jecache_place *place, struct jecache *ret);
