/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's memory as the kernel counts it, against what the trace and the allocators' books
 * hold: where its growth is, and whether more of it is unexplained than can be for harmless
 * reasons.
 */
#pragma once

#include "analyzer/cube/analysis.h"

/*
 * Where resident memory grew, from the window's start to its end. What is known adds up:
 *
 *      RSS = anonymous + file + shared
 *      anonymous = heap + free + other - swapped
 *
 * `other_bytes` is what is left, so it is negative where more blocks came than became resident.
 */
struct rss_parts {
	bool known; /* the kernel told the kinds of pages apart */
	int64_t anonymous_bytes, file_bytes, shared_bytes;
	uint64_t own_bytes; /* of shared memory, heaptap's own at the end, at most */
	int64_t swapped_bytes;

	/* `heap_known`: by the allocators' books, or, where these were not read at both ends, by
	 * the events. The free part is known by books alone. */
	bool heap_known, free_known;
	int64_t heap_bytes, free_bytes, other_bytes;
	/* Free inside the allocators at the end: address space, and what of it can be resident. */
	uint64_t free_end_bytes, free_resident_bytes;
	bool free_resident_exact; /* counted page by page; otherwise it is an upper bound */
};

struct rss_growth {
	bool known; /* there are samples */
	uint64_t first_bytes, last_bytes;
	/* From the first sample to the last. */
	int64_t growth_bytes;
	struct rss_parts parts;
	/* What blocks add to it: those that are outstanding, without those of before that were
	 * freed. */
	int64_t explained_bytes;
	/* The most that the window's blocks, the allocator's way with them, mappings, where they
	 * are recorded, and heaptap itself can have added: rss.c. */
	uint64_t explicable_bytes;
	uint64_t unexplained_bytes; /* of growth_bytes */
	bool is_unexplained;	    /* that is enough to look for */
};

struct rss_growth rss_growth_of(const struct analysis *analysis);
