/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that a thread has had of late. Most programs allocate from some dozens of places in turn:
 * the kept frames hold up to where the ways part, and the rest is known, too, if the words that a
 * walk would load are what they were.
 */
#pragma once

#include "agent/kept.h"
#include "agent/walk.h"

struct memo_found {
	uint32_t id;	/* 0: the stack is not known */
	uint32_t outer; /* kept frames that it has, if they are what they were */
};

/*
 * The stack whose walk begins at these registers, and which ends at `hi`. Frames of this snapshot
 * and thread are kept of it.
 */
struct memo_found memo_find(
	struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi);

/*
 * Notes the stack that is kept now, of `count` frames, and is known by its id. `held` of them are
 * those that were kept before.
 */
void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span);
