/* SPDX-License-Identifier: Apache-2.0
 *
 * The boxes of a flame graph: each node of a call tree is a box from `start` to `start + value`,
 * and its callers' boxes contain that range. Stacks with a figure of 0 or less have no box.
 */
#pragma once

#include "analyzer/views/calls.h"

#define FLAME_DEPTH_MAX 400u
#define FLAME_BOXES_MAX 50000u

struct flame_box {
	uint32_t node;
	uint32_t depth; /* number of steps from the root; 0: the root */
	uint64_t start, value;
};

struct flame {
	/* depth-first: a box, then the boxes of its callees, then its neighbour */
	struct flame_box *box;
	size_t count, capacity;
	uint64_t total;	   /* of box 0, the root */
	uint32_t depth;	   /* of the deepest box */
	uint64_t left_out; /* boxes that are too small, too deep, or too many */
	uint64_t negative; /* absolute sum of the figures of stacks below 0 */
};

/* Makes the boxes that have at least `least_share` (0 to 1) of the whole. If they are more than
 * FLAME_BOXES_MAX, raises the share until they are not. A function shows its first `limit` callees
 * (0: all). `calls` is a top-down tree. */
HT_MUST_CHECK
struct ht_err *flame_init(
	struct flame *flame, const struct calls *calls, double least_share, size_t limit);
void flame_deinit(struct flame *flame);
