/* SPDX-License-Identifier: Apache-2.0
 *
 * What a segment of mimalloc's (2.0.9 to 2.4.1) says of its pages.
 */
#pragma once

#include "attach/heap/mimalloc/miwalk.h"

struct misegment {
	raddr_t thread; /* 0: it has ended */
	uint64_t system_bytes;
	struct miwalk_page page[MIWALK_SLICES];
	size_t count;
	unsigned builds; /* that all its pages can be of */
};

/* Is there one, by the cookie of the first thread's heap, and has it pages in use? Of `builds`, a
 * bit each. */
bool misegment_is(struct view *view, raddr_t addr, uint64_t cookie, unsigned builds);
/* False: it cannot be read, or contradicts itself. */
bool misegment_read(
	struct view *view, raddr_t addr, uint64_t cookie, unsigned builds, struct misegment *ret);
/* Of the first block in its page, if it is of that version. */
uint64_t misegment_start(enum mibuild build, const struct miwalk_page *page);
