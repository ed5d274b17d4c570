/* SPDX-License-Identifier: Apache-2.0
 *
 * The books of gperftools' tcmalloc (2.10, pages of 8 KiB): its sizes, what each size has in its
 * spans and in the lists between threads, what threads have cached, and what all spans together
 * are. All are variables without an exported name, and each is like nothing else: by how its values
 * depend on each other, and on the sizes.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

#define TCBOOKS_CLASSES 128u

struct tcbooks {
	raddr_t sizes, central, pages;
	raddr_t cache; /* what points at a thread's; 0: not found */
	/* By size: */
	unsigned count;
	uint64_t bytes[TCBOOKS_CLASSES], span_bytes[TCBOOKS_CLASSES], move[TCBOOKS_CLASSES];
};

/* What they say at one time. */
struct tcbooks_sum {
	uint64_t blocks[TCBOOKS_CLASSES]; /* that the program has */
	uint64_t large_bytes;		  /* in blocks that are larger than any of these */
	uint64_t held_bytes, system_bytes;
	uint32_t caches;
	bool valid; /* it makes sense */
};

/* Among the module's variables; `*ret_count`: 0: there are none, or nobody has used them yet; more
 * than 1: something looks like one of them that is none. */
HT_MUST_CHECK
struct ht_err *tcbooks_find(
	struct view *view, const struct module *module, struct tcbooks *ret, size_t *ret_count);
void tcbooks_read(struct view *view, const struct tcbooks *books, struct tcbooks_sum *ret);
/* By how much two sums differ: 0 when nothing has moved. */
uint64_t tcbooks_moved_bytes(const struct tcbooks *books, const struct tcbooks_sum *before,
	const struct tcbooks_sum *now);
