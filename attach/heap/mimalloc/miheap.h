/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's heaps (its 2.0.9 to 2.4.1), one for each thread as a rule. The first thread's is a
 * variable without an exported name: it is recognised by the sizes of its queues, which are always
 * the same, and by what it points at, which points back.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

/* Queues of pages with blocks of one size; the two behind them: of one block each, and full. */
#define MIHEAP_SIZES 73u

/* Versions, by what of them differs in what is read: each from the named one on. */
enum mibuild {
	MIBUILD_2_0_9, /* another place of the first block in its page */
	MIBUILD_2_1_2,
	MIBUILD_2_1_4, /* heaps and pages are described otherwise */
	MIBUILD_2_1_8, /* segments are */
	MIBUILD_2_2_2, /* heaps are, and pages have smaller blocks */
	MIBUILD_2_3_0, /* heaps are */
	MIBUILDS,
};

#define MIBUILDS_ALL ((1u << MIBUILDS) - 1)

/* That a page of eight slices has. */
uint64_t mibuild_medium_max(enum mibuild build);

struct miheap {
	raddr_t addr;
	raddr_t thread;	 /* whose control block is there */
	uint64_t cookie; /* of the first thread's heap: by which all segments are known */
	uint64_t pages;	 /* in its queues */
	raddr_t delayed; /* blocks that others have freed of pages that were full; 0: none */
	unsigned builds; /* that it may be of, a bit each */
};

/* Of the blocks in the queue of that index, of those that have a size. */
uint64_t miheap_block_bytes(size_t index);
/* False unless what is at `addr` looks like one of `builds` in every respect; of a module's
 * variables where `is_variable`, else of memory that was mapped. */
bool miheap_read(
	struct view *view, raddr_t addr, bool is_variable, unsigned builds, struct miheap *ret);
/* The first thread's, among the module's variables; `*ret_count` gets how many there are. One that
 * nobody has used yet is none. */
HT_MUST_CHECK
struct ht_err *miheap_find(
	struct view *view, const struct module *module, struct miheap *ret, size_t *ret_count);
