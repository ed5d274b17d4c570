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
 * The stack whose walk begins at `start`. `span`: the stack from there on; `count`: of the kept
 * frames, which are of this snapshot and thread. Reads words only of the page in which the hook's
 * own return address lies, right below `start`.
 */
struct memo_found memo_find(struct abi_slot *slot, uint64_t count, const struct walk_start *start,
	struct trace_span span);

/*
 * Notes the stack that is kept now, of `count` frames, and is known by its id. `held` of them are
 * those that were kept when memo_find was asked about it.
 */
void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span);
