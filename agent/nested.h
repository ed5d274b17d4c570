/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides if a hooked call is part of another one: an allocator calls itself, or an interposed
 * library calls the next allocator. The hook only forwards such a call, because the program itself
 * made only the outermost call. A call by a signal handler that interrupts an allocator is not part
 * of the allocator's call.
 */
#pragma once

#include "agent/config.h"
#include "agent/frame.h"
#include "agent/slot.h"

/* An allocator's call to itself is within this distance on the stack. A handler's call is not: red
 * zone and signal frame are larger. */
#define NESTED_NEAR_BYTES 1024u

/*
 * Whether the call from `frame` is part of the call that the hook of `slot` waits for. Slow: it may
 * walk the stack, in the scratch of `slot`, which a waiting hook does not use.
 */
HT_MUST_CHECK
bool nested_in(
	const struct abi_thunk *self, struct abi_slot *slot, const struct thread_frame *frame);

/* Whether the call from `frame` is part of an unrecorded call whose return address is `pc`, stored
 * at `at`. `slot` is the caller's own. */
HT_MUST_CHECK
bool nested_in_call(const struct abi_config *config, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t at, uint64_t pc);

/* Whether `pc` lies in a module that contains a hooked function of an allocator. */
HT_MUST_CHECK
bool nested_is_allocator(const struct abi_thunk *self, uint64_t pc);
