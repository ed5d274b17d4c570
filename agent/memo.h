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
 * The id of the stack whose walk begins at these registers; 0: it is not known. It ends at `hi`,
 * and frames of this snapshot and thread are kept of it.
 */
uint32_t memo_stack(struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi);

/*
 * Notes the stack that is kept now, of `count` frames, and is known by its id. `held` of them are
 * those that were kept when memo_stack was asked about it.
 */
void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span);
