/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's memory as the kernel counts it, against the live bytes of the trace and of the
 * allocators' own counters: which kind of memory grew, and whether more growth is unexplained than
 * harmless reasons can cause.
 */
#pragma once

#include "analyzer/cube/analysis.h"

/*
 * The growth of resident memory by kind, from the window's start to its end. If the kinds are
 * known, they add up:
 *
 *      RSS = anonymous + file + shared
 *      anonymous = heap + free + other - swapped
 *
 * `other_bytes` is the remainder. It is negative if blocks were added whose pages did not become
 * resident.
 */
struct rss_parts {
	bool known; /* the kernel reports the kinds of pages separately */
	int64_t anonymous_bytes, file_bytes, shared_bytes;
	/* part of the shared memory at the end: heaptap's own, an upper bound */
	uint64_t own_bytes;
	int64_t swapped_bytes;

	/* `heap_known`: from the allocators' counters if they were read at both ends of the window,
	 * otherwise from the events; false in a sample, or with a pause, without such counters.
	 * `free_known`: only counters give the free part. */
	bool heap_known, free_known;
	int64_t heap_bytes, free_bytes, other_bytes;
	/* Free memory inside the allocators at the end: its address space, and how much of that can
	 * be resident. */
	uint64_t free_end_bytes, free_resident_bytes;
	bool free_resident_exact; /* counted page by page; otherwise it is an upper bound */
};

struct rss_growth {
	bool known; /* the trace has at least one RSS figure */
	uint64_t first_bytes, last_bytes;
	/* From the first RSS figure to the last. */
	int64_t growth_bytes;
	struct rss_parts parts;
	/* Growth by blocks: outstanding bytes minus the freed bytes of blocks that were allocated
	 * before the window. */
	int64_t explained_bytes;
	/* Upper bound (rss.c) of the growth by the window's blocks, the allocator's overhead,
	 * recorded mappings, and heaptap itself. */
	uint64_t explicable_bytes;
	uint64_t unexplained_bytes; /* the part of growth_bytes without an explanation */
	bool is_unexplained;	    /* unexplained_bytes is large enough to warn */
};

struct rss_growth rss_growth_of(const struct analysis *analysis);
