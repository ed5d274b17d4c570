/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers a thread's recent stacks. Most programs allocate from some dozens of call sites in
 * turn: kept frames cover the common outer part of these stacks. This file also finds the inner
 * part, if all words that a walk would load are unchanged.
 */
#pragma once

#include "agent/kept.h"
#include "agent/walk.h"

struct memo_found {
	uint32_t id;	/* 0: the stack is not known */
	uint32_t outer; /* number of outermost kept frames that the stack shares, if they are
			   unchanged */
};

/*
 * Finds the stack whose walk begins at these registers and which ends at `hi`. The caller has
 * checked that the kept frames are of this snapshot and thread.
 */
struct memo_found memo_find(
	struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi);

/*
 * Remembers the stack kept now, with `count` frames and a known id. The `held` outermost frames
 * were kept before.
 */
void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span);
