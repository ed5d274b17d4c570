/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a thread's slot that several files of the agent read or write.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"

static inline void slot_mark(struct abi_slot *slot, enum abi_slot_state state)
{
	store_release(&slot->head.state, state);
}

/*
 * The bounds of the thread's primary stack as the daemon gave them: all of [sp, hi) is mapped and
 * readable for any sp in [lo, hi) that is in use. `lo` may lie below what is mapped so far. False
 * if the bounds are unknown.
 */
static inline bool slot_bounds(const struct abi_slot_head *head, uint64_t *ret_lo, uint64_t *ret_hi)
{
	uint64_t incarnation = head->incarnation;
	if (load_acquire(&head->bounds_incarnation) != incarnation)
		return false;
	*ret_lo = load_acquire(&head->stack_lo);
	*ret_hi = load_acquire(&head->stack_hi);
	return *ret_hi != 0 && load_relaxed(&head->bounds_incarnation) == incarnation;
}
