/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks through an allocator's data structures until two consecutive walks agree. The program runs
 * on meanwhile, so a walk that meets a half-made change is invalid.
 */
#pragma once

#include "attach/heap/view/view.h"

/* How to walk one allocator. `slot`: 0 or 1, where a walk stores its result. */
struct walks_how {
	unsigned max; /* number of walks */
	/* A walk is cheap: no walk leaves budget for the next, and an invalid walk is ignored.
	 * Otherwise the first walk leaves half of the budget, and only consecutive valid walks are
	 * compared. */
	bool is_small;
	/* `*ret_valid`: is the walk consistent? */
	struct ht_err *(*walk)(struct view *view, void *context, unsigned slot, bool *ret_valid);
	/* How much the walks in two slots differ; 0: not at all. */
	uint64_t (*moved_bytes)(void *context, unsigned before, unsigned now);
	/* Does a walk lack something, so that another is needed? NULL: never. */
	bool (*is_partial)(void *context, unsigned slot);
};

struct walks {
	bool any;	      /* the result of the last valid walk is still in its slot */
	unsigned last;	      /* the slot of the last valid walk */
	unsigned in_row;      /* valid walks at the end */
	uint64_t moved_bytes; /* difference between `last` and the walk before; UINT64_MAX: unknown
			       */
};

/* Walks until two consecutive walks agree and the last is not partial, the budget is spent, or
 * `how->max` walks are done. Pauses after an invalid walk. */
HT_MUST_CHECK
struct ht_err *walks_take(
	struct view *view, const struct walks_how *how, void *context, struct walks *ret);
