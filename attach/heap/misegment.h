/* SPDX-License-Identifier: Apache-2.0
 *
 * What a segment of mimalloc's (2.0.9 and 2.1.2) says of its pages.
 */
#pragma once

#include "attach/heap/miwalk.h"

struct misegment {
	raddr_t thread; /* 0: it has ended */
	uint64_t system_bytes;
	struct miwalk_page page[MIWALK_SLICES];
	size_t count;
	unsigned rules; /* by which all its pages can be read */
};

/* Is there one, by the cookie of the first thread's heap, and has it pages in use? */
bool misegment_is(struct view *view, raddr_t addr, uint64_t cookie);
/* False: it cannot be read, or contradicts itself. `rules`: of which it may be. */
bool misegment_read(
	struct view *view, raddr_t addr, uint64_t cookie, unsigned rules, struct misegment *ret);
