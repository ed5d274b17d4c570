/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that the program has given back and jemalloc keeps for the same thread (tcache); its map
 * counts them as handed out. A cache is among its thread's variables: stacks of all sizes, one
 * behind the other, and what names them. All those of an arena are in one ring, where jemalloc
 * counts at all (stats): also those whose threads are not found, and those that belong to none.
 */
#pragma once

#include "attach/heap/view/threads.h"

struct jecache {
	uint64_t bytes;	    /* in those that were found */
	uint64_t max_bytes; /* the most that one of them can hold */
	unsigned count;	    /* that were found */
	unsigned known;	    /* threads whose cache is one of them, or who have none */
	bool whole;	    /* no ring was being changed */
};

/* How caches lie in memory. */
enum jecache_form {
	JECACHE_TWO,   /* as of 5.3: in two parts that name each other */
	JECACHE_FIRST, /* 5.1: in one */
	JECACHE_ONE,   /* 5.2: the same, with more between small sizes and others */
	JECACHE_FORMS,
};

struct jecache_place {
	enum jecache_form form;
	uint64_t distance; /* of its sizes, before its thread's control block; 0: there is none */
};

/* `is_old`: those from before 5.3 are looked for. */
struct jecache_place jecache_find(struct view *view, const struct threads *threads, bool is_old);
HT_MUST_CHECK
struct ht_err *jecache_read(struct view *view, const struct threads *threads,
	const struct jecache_place *place, struct jecache *ret);
