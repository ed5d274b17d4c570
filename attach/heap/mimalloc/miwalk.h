/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages and heaps of mimalloc that one walk has found.
 */
#pragma once

#include "attach/heap/mimalloc/miheap.h"

#define MIWALK_SLICE_BYTES 65536u
#define MIWALK_SLICES	   512u

struct miwalk_page {
	raddr_t addr;	/* where its slices begin */
	uint64_t start; /* distance of the first block, if the page says so */
	/* Size of the page, from `addr` on, and of each block. */
	uint64_t bytes, block_bytes;
	uint32_t used, freed; /* blocks handed out; of these, freed by other threads */
	raddr_t list;	      /* list of blocks that other threads have freed into the page */
	raddr_t heap;	      /* 0: its thread has ended */
	raddr_t thread;	      /* of the segment or, in 3.x, of the page; 0: the thread has ended */
	bool unsure;	      /* its list was not walked, as other lists had used up the budget */
};

struct miwalk_heap {
	struct miheap heap;
	uint64_t pages, bytes; /* pages found, and bytes handed out of them */
};

/* One walk. */
struct miwalk {
	struct miwalk_page *page; /* ascending by addr */
	size_t count, capacity;
	struct miwalk_heap *heap; /* ascending by address; NULL in 3.x, where heap_count is the
				     number of threads */
	size_t heap_count;
	uint64_t held_bytes;
	uint64_t system_bytes; /* of segments with pages; in 3.x, of pages */
	uint64_t odd_bytes;    /* in pages or segments that were inconsistent at every look */
	uint64_t unsure_bytes; /* in pages whose lists of freed blocks were not walked */
	uint64_t missing;      /* pages that only the heaps or only the segments have */
	size_t segments;
	bool valid; /* the walk is complete and consistent */
	bool full;  /* there are more pages or heaps than room */
};

/* Distance of the first block from the beginning of its page in that build. */
uint64_t miwalk_start(enum mibuild build, const struct miwalk_page *page);
/* Does a block of the page begin at `addr` in one of `builds` (one bit each)? */
bool miwalk_is_block(const struct miwalk_page *page, unsigned builds, raddr_t addr);
/* Sets `freed` to the number of blocks in the page's list, or `unsure` if less than `reserve` is
 * left of the budget. False: it is no list, or changed meanwhile. */
bool miwalk_count_freed(
	struct view *view, uint64_t reserve, unsigned builds, struct miwalk_page *page);
/* Appends a page; sets `full` if there are too many. */
HT_MUST_CHECK
struct ht_err *miwalk_add(struct miwalk *walk, const struct miwalk_page *page);
void miwalk_deinit(struct miwalk *walk);
/* Bytes in which two walks differ; 0: nothing has moved. */
uint64_t miwalk_moved_bytes(const struct miwalk *before, const struct miwalk *now);
