/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that a thread has had of late. Most programs allocate from some dozens of places in turn:
 * the kept frames hold up to where the ways part, and the rest is known, too, if the words that a
 * walk would load are what they were.
 */
#pragma once

#include "agent/kept.h"
#include "agent/walk.h"

/*
 * The id of the stack whose walk begins at `start`; 0: it is not known. `span`: the stack from
 * there on; `held`: how many of the kept frames, which are of this snapshot and thread, a walk
 * would find again.
 */
uint32_t memo_find(struct abi_slot *slot, uint64_t held, const struct walk_start *start,
	struct trace_span span);

/*
 * Notes the stack that is kept now, of `count` frames, and is known by its id. Of the one that was
 * kept when memo_find was asked about it, `held` frames are left.
 */
void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span);
