/* SPDX-License-Identifier: Apache-2.0
 *
 * The distinct stacks of a view, as they were recorded: for JSON and exports, which show chains
 * with all their frames. Lists for people show rows (view.h).
 */
#pragma once

#include "analyzer/views/view.h"

struct stack {
	uint32_t node; /* leaf node; 0: none; CUBE_OTHER */
	struct sums sums;
	uint64_t calls[REPLAY_HOOKS]; /* allocations by function */
};

/* The stacks with figures, sorted by `metric`, largest first; freed by the caller. */
HT_MUST_CHECK
struct ht_err *stacks_find(
	const struct view *view, enum metric metric, struct stack **ret, size_t *ret_count);
/* The node of the view's tree where the stack is shown to begin: the same for stacks of one row. */
uint32_t stacks_site(const struct view *view, const struct stack *stack);
/* Number of innermost frames that displays skip because they are wrappers or plumbing (wrapper.h);
 * 0 if the query shows wrappers, or if all frames are such. */
uint32_t stacks_wrappers(const struct view *view, const struct stack *stack);
