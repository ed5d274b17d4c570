/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk that reuses the last stack. A slot keeps its thread's last stack; the next walk reloads
 * every word that the last one used, and reuses the outer frames if their words are unchanged.
 *
 * A walk is a function of the caller's registers, the tables, and the words it loads. The kept
 * frames are of one snapshot, and the outer ones are reused only if the walk arrives at a kept
 * frame with the same pc, rsp and rbp. So the result equals that of walk_plain, at less cost.
 */
#pragma once

#include "agent/kept.h"
#include "agent/walk.h"

/*
 * Three ways to find the stack when it is not the kept one, cheapest first. Each returns 0 if the
 * caller must try the next; the last returns 0 only if no frame of the stack could get a node. The
 * hook calls each directly, so that their frames do not add up: hooks run on small stacks.
 */

/* Finds the stack among the recent ones. The kept frames must be of the stack that ends at `hi`. */
uint32_t trace_stack_late(
	struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi);

/* Walks until it meets a kept frame; in a deep area if the thread has one (deep.h). */
uint32_t trace_stack_changed(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);

/* The plain walk. */
uint32_t trace_stack_plain(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);

/* trace_stack if the stack is not the kept one. */
static inline __attribute__((always_inline)) uint32_t trace_stack_other(
	const struct abi_config *config, struct abi_slot *slot, struct walk_start start)
{
	uint32_t id = trace_stack_changed(config, slot, start.pc, start.sp, start.fp);
	if (ht_likely(id != 0))
		return id;
	return trace_stack_plain(config, slot, start.pc, start.sp, start.fp);
}

/*
 * The node id of the stack: that of walk_plain and intern_stack with the snapshot in force, unless
 * the stack has more than ABI_FRAMES_MAX frames (deep.h). Counts cut stacks and losses in the slot.
 */
static inline __attribute__((always_inline)) uint32_t trace_stack(
	const struct abi_config *config, struct abi_slot *slot, struct walk_start start)
{
	const struct trace *trace = (const struct trace *)slot->walk;
	uint64_t lo, hi;
	if (ht_likely(slot_bounds(&slot->head, &lo, &hi)) && ht_likely(start.sp >= lo) &&
		ht_likely(start.sp < hi)) {
		hi = ht_align_down(hi, sizeof(uint64_t));
		uint64_t count = kept_count(trace, slot,
			(const struct abi_snapshot *)load_acquire(&config->unwind), hi);
		if (ht_likely(count != 0)) {
			const struct step_state state = {
				.pc = start.pc, .sp = start.sp, .fp = start.fp};
			uint32_t id = kept_stack(trace, count, &state, hi);
			if (ht_likely(id != 0))
				return id;
			id = trace_stack_late(slot, start.pc, start.sp, start.fp, hi);
			if (ht_likely(id != 0))
				return id;
		}
	}
	return trace_stack_other(config, slot, start);
}
