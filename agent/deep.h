/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks for which a slot has no room, kept in deep areas (format/abi_control.h): what trace.c does
 * for some hundred frames, for up to ABI_FRAMES_MAX.
 *
 * A stack with more frames is cut outside. The edge stays where it is while frames are added, so
 * that stacks of one recursion share their outer frames, and moves inwards by DEEP_CUT_FRAMES at a
 * time. So a cut stack has other outer frames than that of walk_plain, which always has
 * ABI_FRAMES_MAX of them.
 */
#pragma once

#include "format/abi_control.h"

/* How far the edge moves, and with how few frames of a cut stack it is looked for anew. */
#define DEEP_CUT_FRAMES	  (ABI_FRAMES_MAX / 2)
#define DEEP_LEAST_FRAMES (ABI_FRAMES_MAX / 4)

/* The slot's thread, whose stack the slot has no room for, uses a deep area from now on, if one is
 * free. */
void deep_begin(const struct abi_config *config, struct abi_slot *slot);

/*
 * trace_stack of a thread that uses a deep area. 0: this stack cannot be kept. Gives the area back
 * when the slot has room for the stack, or a stack cannot be kept.
 */
uint32_t deep_stack(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);
