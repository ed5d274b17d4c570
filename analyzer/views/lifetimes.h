/* SPDX-License-Identifier: Apache-2.0
 *
 * How long blocks of a view lived that were both allocated and freed in its window.
 */
#pragma once

#include "analyzer/views/view.h"

#define LIFETIMES_CLASSES CUBE_SIZE_CLASSES

/* By class of the life in ns: class 0 is 0 ns, class n is a number with n significant bits. */
struct lifetimes {
	/* True for a part of the trace or some of its stacks: there, blocks that share the buckets
	 * of allocation and free count with their mean life. The numbers of blocks are exact, their
	 * classes are not. */
	bool is_estimate;
	uint64_t blocks[LIFETIMES_CLASSES], bytes[LIFETIMES_CLASSES];
};

void lifetimes_find(const struct view *view, struct lifetimes *ret);
