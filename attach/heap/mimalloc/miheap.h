/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's heaps (2.0.9 to 2.4.1), usually one for each thread. The heap of the first thread is a
 * variable without an exported name: the sizes of its queues, which are constant, and an object
 * that it points at and that points back identify it.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

/* Queues of pages with blocks of one size. Two more follow: pages of one block, and full pages. */
#define MIHEAP_SIZES 73u

/* Builds, by the first version with each difference that matters here. */
enum mibuild {
	MIBUILD_2_0_9, /* the first block of a page is elsewhere */
	MIBUILD_2_1_2,
	MIBUILD_2_1_4, /* other layout of heaps and pages */
	MIBUILD_2_1_8, /* other layout of segments */
	MIBUILD_2_2_2, /* other layout of heaps; pages have smaller blocks */
	MIBUILD_2_3_0, /* other layout of heaps */
	MIBUILDS,
};

#define MIBUILDS_ALL ((1u << MIBUILDS) - 1)

/* Largest block in a page of eight slices. */
uint64_t mibuild_medium_max(enum mibuild build);

struct miheap {
	raddr_t addr;
	raddr_t thread;	 /* its thread's control block */
	uint64_t cookie; /* of the first thread's heap; identifies all segments */
	uint64_t pages;	 /* in its queues */
	raddr_t delayed; /* blocks of full pages that other threads have freed; 0: none */
	unsigned builds; /* that it may belong to, one bit each */
};

/* Size of the blocks in the queue with that index. */
uint64_t miheap_block_bytes(size_t index);
/* Reads the heap at `addr`; false unless it is plausible for one of `builds` in every field.
 * `is_variable`: it is one of a module's variables, otherwise in mapped memory. */
bool miheap_read(
	struct view *view, raddr_t addr, bool is_variable, unsigned builds, struct miheap *ret);
/* Finds the first thread's heap among the module's variables. `*ret_count`: the number found. An
 * unused heap does not count. */
HT_MUST_CHECK
struct ht_err *miheap_find(
	struct view *view, const struct module *module, struct miheap *ret, size_t *ret_count);
