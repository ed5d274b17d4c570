/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out when one thread of the target records alone, and tells the agent so
 * (abi_control.sole): it may then stamp its events without a fence.
 */
#pragma once

#include "format/abi_control.h"

/* Zero-initialised is valid. */
struct sole {
	uint64_t next_ns;		  /* not looked before */
	uint64_t proposed;		  /* key that was proposed at the last look; 0: none */
	uint64_t committed[ABI_SLOT_MAX]; /* at the last look */
};

/*
 * One look at all slots, at most one in some milliseconds (`now_ns`: CLOCK_MONOTONIC): what an
 * owner stored before one look is seen at the next. `slots` and `control` are the target's to
 * write.
 */
void sole_look(struct sole *sole, struct abi_control *control, const struct abi_slot *slots,
	uint32_t slot_max, uint64_t now_ns);
