/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample of the allocations instead of all of them (format/abi_control.h): which are taken, and
 * which blocks are to be missed when they are freed. What is not taken comes no further than
 * sample_entry.S.
 */
#pragma once

#include "agent/thread.h"

/*
 * How many bytes it is to the next point, exponentially distributed about `mean_bytes`, for an
 * evenly distributed number `random`, which is not 0.
 */
uint64_t sample_distance(uint64_t random, uint64_t mean_bytes);

/*
 * Draws for an allocation of `size` bytes, before the real function is called: sampler.taken of
 * `slot`, which is thread_enter's. NULL: the call is only forwarded, and uses up what it passes.
 */
void sample_draw(const struct abi_thunk *self, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t size);

/* The block at `addr` is a sample from now on. False: there is no room, which is counted; or this
 * is a forked child. */
HT_MUST_CHECK
bool sample_insert(const struct abi_config *config, uint64_t addr);

/* Whether the block at `addr` was a sample; it is none any more. False in a forked child. */
HT_MUST_CHECK
bool sample_remove(const struct abi_config *config, uint64_t addr);

/* Whether the call that was drawn for, and gave `addr` (0: it failed), is to be recorded. */
HT_MUST_CHECK
static inline bool sample_keep(
	const struct abi_config *config, const struct abi_slot *slot, uint64_t addr)
{
	return slot->head.sampler.taken && (addr == 0 || sample_insert(config, addr));
}
