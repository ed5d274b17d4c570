/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks through the books of an allocator until two in a row find the same. The program runs on
 * meanwhile: a walk that meets a change half made makes no sense.
 */
#pragma once

#include "attach/heap/view/view.h"

/* How one allocator's books are walked. `slot`: 0 or 1, where the walk leaves what it finds. */
struct walks_how {
	unsigned max; /* walks */
	/* A walk costs little: none leaves budget for the next, and one that makes no sense is
	 * passed over. Otherwise the first leaves half of the budget for the second, and only walks
	 * that follow each other are compared. */
	bool is_small;
	/* `ret_valid`: does the walk make sense? */
	struct ht_err *(*walk)(struct view *view, void *context, unsigned slot, bool *ret_valid);
	/* By how much the walks in two slots differ; 0: nothing has moved. */
	uint64_t (*moved_bytes)(void *context, unsigned before, unsigned now);
	/* Is something missing in a walk, so that another is made? NULL: never. */
	bool (*is_partial)(void *context, unsigned slot);
};

struct walks {
	bool any;	      /* the slot of the last walk that makes sense was not used again */
	unsigned last;	      /* that slot */
	unsigned in_row;      /* walks at the end that make sense */
	uint64_t moved_bytes; /* between `last` and the one before it; UINT64_MAX: not known */
};

/* Until one finds what the one before it found, the budget is spent, or `how->max` walks. After a
 * walk that makes no sense there is a pause. */
HT_MUST_CHECK
struct ht_err *walks_take(
	struct view *view, const struct walks_how *how, void *context, struct walks *ret);
