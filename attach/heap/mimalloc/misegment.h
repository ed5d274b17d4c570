/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of pages in a segment of mimalloc (2.0.9 to 2.4.1).
 */
#pragma once

#include "attach/heap/mimalloc/miwalk.h"

struct misegment {
	raddr_t thread; /* 0: the thread has ended */
	uint64_t system_bytes;
	struct miwalk_page page[MIWALK_SLICES];
	size_t count;
	unsigned builds; /* that fit all its pages */
};

/* Is there a segment with pages in use? Its cookie must match that of the first thread's heap.
 * `builds`: one bit each. */
bool misegment_is(struct view *view, raddr_t addr, uint64_t cookie, unsigned builds);
/* False: unreadable or inconsistent. */
bool misegment_read(
	struct view *view, raddr_t addr, uint64_t cookie, unsigned builds, struct misegment *ret);
