/* SPDX-License-Identifier: Apache-2.0
 *
 * The boxes of a flame graph: each node of a call tree from `start` to `start + value`, below those
 * that called it. Stacks whose figure is not above 0 have none.
 */
#pragma once

#include "analyzer/views/calls.h"

#define FLAME_DEPTH_MAX 400u
#define FLAME_BOXES_MAX 50000u

struct flame_box {
	uint32_t node;
	uint32_t depth; /* of the root: 0 */
	uint64_t start, value;
};

struct flame {
	struct flame_box *box; /* callers first; what a box calls comes before its neighbour */
	size_t count, capacity;
	uint64_t total;	   /* of box 0, the root */
	uint32_t depth;	   /* of the deepest box */
	uint64_t left_out; /* boxes that are too small, too deep, or too many */
	uint64_t negative; /* what stacks below 0 add up to, without the sign */
};

/* Boxes of at least `least_share` of the whole are made, or of more, so that they are no more than
 * FLAME_BOXES_MAX; of each function's callees the `limit` first ones (0: all). `calls` is a
 * top-down tree. */
HT_MUST_CHECK
struct ht_err *flame_init(
	struct flame *flame, const struct calls *calls, double least_share, size_t limit);
void flame_deinit(struct flame *flame);
