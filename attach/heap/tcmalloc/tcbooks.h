/* SPDX-License-Identifier: Apache-2.0
 *
 * The data structures of gperftools' tcmalloc (2.10, pages of 8 KiB): its size classes, the blocks
 * of each class in spans and in lists between threads, the caches of threads, and the sum of all
 * spans. All are variables without exported names; the relations between their values, and to the
 * sizes, identify them.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

#define TCBOOKS_CLASSES 128u

struct tcbooks {
	/* Addresses of the lists of each class, and of the lists and sums of spans. */
	raddr_t central, pages;
	raddr_t cache; /* the variable that points at a thread's cache; 0: not found */
	/* By size class: the size of a block and of a span, and how many blocks move at once. */
	unsigned count;
	uint64_t bytes[TCBOOKS_CLASSES], span_bytes[TCBOOKS_CLASSES], move[TCBOOKS_CLASSES];
};

/* The sums at one time. */
struct tcbooks_sum {
	uint64_t blocks[TCBOOKS_CLASSES]; /* that the program owns */
	uint64_t large_bytes;		  /* in blocks larger than any size class */
	uint64_t held_bytes, system_bytes;
	uint32_t caches;
	bool valid; /* the sums are consistent */
};

/* Finds the structures among the module's variables. `*ret_count`: 0: there are none, or they are
 * unused; more than 1: there are several candidates. */
HT_MUST_CHECK
struct ht_err *tcbooks_find(
	struct view *view, const struct module *module, struct tcbooks *ret, size_t *ret_count);
void tcbooks_read(struct view *view, const struct tcbooks *books, struct tcbooks_sum *ret);
/* The bytes by which two sums differ; 0: they are equal. */
uint64_t tcbooks_moved_bytes(const struct tcbooks *books, const struct tcbooks_sum *before,
	const struct tcbooks_sum *now);
