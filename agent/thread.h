/* SPDX-License-Identifier: Apache-2.0
 *
 * Which slot a call belongs to: found by thread pointer, one per nesting level; also the gate that
 * tells a nested call from a stale mark.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"
#include "format/abi_thunk.h"

/* The frame of a hook, as __builtin_frame_address(0) gives it. */
struct thread_frame {
	uint64_t caller_fp;	 /* rbp of the hook's caller */
	uint64_t caller_pc;	 /* return address */
	uint64_t caller_stack[]; /* its address is the caller's rsp after the return */
};

static inline const struct abi_config *thread_config(const struct abi_thunk *self)
{
	return (const struct abi_config *)self->config;
}

/* False in a forked child: its slots are its parent's, and must not be written. */
static inline bool thread_alive(const struct abi_config *config)
{
	return load_relaxed(&((const struct abi_state *)config->state)->alive);
}

/*
 * Enters the hook called from `frame`: returns the slot to record in, in state `state`, or NULL
 * when the call is only to be forwarded (nothing to record, or the loss is counted already).
 */
HT_MUST_CHECK
struct abi_slot *thread_enter(
	const struct abi_thunk *self, const struct thread_frame *frame, enum abi_slot_state state);

/* Ends what thread_enter began. Does nothing in a forked child. */
void thread_leave(const struct abi_config *config, struct abi_slot *slot);

static inline void thread_mark(struct abi_slot *slot, enum abi_slot_state state)
{
	store_release(&slot->head.state, state);
}

/*
 * The bounds of the thread's primary stack as the daemon gave them: all of [sp, hi) is mapped and
 * readable for any sp in [lo, hi) that is in use. False while they are unknown.
 */
static inline bool thread_bounds(
	const struct abi_slot_head *head, uint64_t *ret_lo, uint64_t *ret_hi)
{
	uint64_t incarnation = head->incarnation;
	if (load_acquire(&head->bounds_incarnation) != incarnation)
		return false;
	*ret_lo = load_acquire(&head->stack_lo);
	*ret_hi = load_acquire(&head->stack_hi);
	return *ret_hi != 0 && load_relaxed(&head->bounds_incarnation) == incarnation;
}
