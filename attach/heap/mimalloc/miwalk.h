/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and heaps of mimalloc as one walk found them.
 */
#pragma once

#include "attach/heap/mimalloc/miheap.h"

#define MIWALK_SLICE_BYTES 65536u
#define MIWALK_SLICES	   512u

struct miwalk_page {
	raddr_t addr;	/* where its slices begin */
	uint64_t start; /* of the first block behind it, where a page says it */
	uint64_t bytes, block_bytes;
	uint32_t used, freed; /* handed out, and of these, freed by others */
	raddr_t list;	      /* of those that were freed into it */
	raddr_t heap;	      /* 0: its thread has ended */
	raddr_t thread;	      /* of the segment; likewise */
	bool unsure;	      /* its list was not walked: there were too many blocks in others */
};

struct miwalk_heap {
	struct miheap heap;
	uint64_t pages, bytes; /* that were found, and all that was handed out of them */
};

/* One walk. */
struct miwalk {
	struct miwalk_page *page; /* ascending by addr */
	size_t count, capacity;
	struct miwalk_heap *heap; /* ascending by address */
	size_t heap_count;
	uint64_t held_bytes;
	uint64_t system_bytes; /* of segments that have pages */
	uint64_t odd_bytes;    /* in what contradicted itself whenever it was looked at */
	uint64_t unsure_bytes; /* of which some may have been freed by others */
	uint64_t missing;      /* pages that heaps have, and no segment, or the other way round */
	size_t segments;
	bool valid; /* the whole was walked, and makes sense */
	bool full;  /* it has more pages or heaps than there is room for */
};

/* Behind those that it has; what is too many makes it full. */
HT_MUST_CHECK
struct ht_err *miwalk_add(struct miwalk *walk, const struct miwalk_page *page);
void miwalk_deinit(struct miwalk *walk);
/* By how much pages differ between two walks: 0 when nothing has moved. */
uint64_t miwalk_moved_bytes(const struct miwalk *before, const struct miwalk *now);
