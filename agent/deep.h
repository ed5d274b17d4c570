/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps stacks that do not fit a slot in deep areas (format/abi_control.h): trace.c keeps up to
 * TRACE_FRAMES_MAX frames in a slot, a deep area keeps up to ABI_FRAMES_MAX.
 *
 * A stack with more frames loses its outermost ones. The edge of the cut stays while frames are
 * added, so that stacks of one recursion share their outer frames, and moves inwards by
 * DEEP_CUT_FRAMES at a time. A cut stack therefore has other outer frames than the result of
 * walk_plain, which always keeps ABI_FRAMES_MAX.
 */
#pragma once

#include "format/abi_control.h"

/* DEEP_CUT_FRAMES: how far the edge moves; a cut stack with fewer than DEEP_LEAST_FRAMES kept
 * frames gets a new edge. */
#define DEEP_CUT_FRAMES	  (ABI_FRAMES_MAX / 2)
#define DEEP_LEAST_FRAMES (ABI_FRAMES_MAX / 4)

/* Gives the slot's thread a deep area, if one is free. Call it when the thread's stack does not fit
 * the slot. */
void deep_begin(const struct abi_config *config, struct abi_slot *slot);

/*
 * trace_stack of a thread that uses a deep area. Returns 0 if this walk kept nothing: the caller
 * takes the plain walk. Gives the area back if the stack fits the slot or cannot be kept, but not
 * if only its edge must be cut anew.
 */
uint32_t deep_stack(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);
