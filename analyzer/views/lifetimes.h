/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the blocks of a view lived that were allocated in its window and freed in it.
 */
#pragma once

#include "analyzer/views/view.h"

#define LIFETIMES_CLASSES CUBE_SIZE_CLASSES

/* By class: 0 is a life of 0 ns, n is one of n significant bits in ns. */
struct lifetimes {
	/* A part of the trace, or some of its stacks: blocks that were born and died in the same
	 * buckets count with their mean. Their numbers are exact, their classes are not. */
	bool is_estimate;
	uint64_t blocks[LIFETIMES_CLASSES], bytes[LIFETIMES_CLASSES];
};

/* Whether the view can say: not for blocks that are chosen by a moment (--alive-at). */
bool lifetimes_are_known(const struct view *view);
void lifetimes_find(const struct view *view, struct lifetimes *ret);
