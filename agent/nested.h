/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a hooked call is part of another one: an allocator that calls itself, or a library before
 * it that calls the next. Such a call is only forwarded: the outermost is what the program asked
 * for. A signal handler's call within an allocator is none of these.
 */
#pragma once

#include "agent/thread.h"

/* What an allocator calls itself lies that near, and no handler's call does: red zone and signal
 * frame are larger. */
#define NESTED_NEAR_BYTES 1024u

/*
 * Whether the call from `frame` is part of the one that the hook of `slot` waits for. Not on the
 * common path: it may walk the stack, with the scratch of `slot`, which such a hook does not use.
 */
HT_MUST_CHECK
bool nested_in(
	const struct abi_thunk *self, struct abi_slot *slot, const struct thread_frame *frame);

/* Whether the call from `frame` is part of the one to which `pc` is the return address, at `at`,
 * and of which no slot tells. `slot` is the caller's own. */
HT_MUST_CHECK
bool nested_in_call(const struct abi_config *config, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t at, uint64_t pc);

/* Whether `pc` lies in a module that holds a hooked function of an allocator. */
HT_MUST_CHECK
bool nested_is_allocator(const struct abi_thunk *self, uint64_t pc);
