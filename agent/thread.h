/* SPDX-License-Identifier: Apache-2.0
 *
 * Which slot a call belongs to: found by thread pointer, one per nesting level; also the gate that
 * tells a nested call from a stale mark.
 */
#pragma once

#include "format/abi_control.h"
#include "format/abi_thunk.h"

/* The frame of a hook, as __builtin_frame_address(0) gives it. */
struct thread_frame {
	uint64_t caller_fp;	 /* rbp of the hook's caller */
	uint64_t caller_pc;	 /* return address */
	uint64_t caller_stack[]; /* its address is the caller's rsp after the return */
};

/*
 * Enters the hook called from `frame`: returns the slot to record in, in state `state`, or NULL
 * when the call is only to be forwarded (nothing to record, or the loss is counted already).
 */
HT_MUST_CHECK
struct abi_slot *thread_enter(
	const struct abi_thunk *self, const struct thread_frame *frame, enum abi_slot_state state);

/* Ends what thread_enter began. Does nothing in a forked child. */
void thread_leave(const struct abi_config *config, struct abi_slot *slot);
