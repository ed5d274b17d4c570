/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling of allocations (format/abi_control.h): decides which calls are recorded and finds the
 * frees of sampled blocks. Calls outside the sample are handled by sample_entry.S alone.
 */
#pragma once

#include "agent/thread.h"

/*
 * The distance in bytes to the next point, exponentially distributed with mean `mean_bytes`, for a
 * uniformly distributed `random`, which is not 0.
 */
uint64_t sample_distance(uint64_t random, uint64_t mean_bytes);

/*
 * Decides whether an allocation of `size` bytes is sampled, before the real function runs; the
 * result is stored in sampler.taken of `slot`, which thread_enter returned. `slot` NULL: the call
 * is only forwarded but still uses up `size` of the countdown.
 */
void sample_draw(const struct abi_thunk *self, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t size);

/* Adds the block at `addr` to the samples. False: no room (counted), or this is a forked child. */
HT_MUST_CHECK
bool sample_insert(const struct abi_config *config, uint64_t addr);

/* Removes the block at `addr` from the samples; returns whether it was one. False in a forked
 * child. */
HT_MUST_CHECK
bool sample_remove(const struct abi_config *config, uint64_t addr);

/* Whether to record the call that was just drawn for and has returned `addr` (0: it failed). */
HT_MUST_CHECK
static inline bool sample_keep(
	const struct abi_config *config, const struct abi_slot *slot, uint64_t addr)
{
	return slot->head.sampler.taken && (addr == 0 || sample_insert(config, addr));
}
