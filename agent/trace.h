/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk that remembers. A slot keeps its thread's last stack; the next walk loads every word of
 * it that was used then, and where all are unchanged it takes the outer frames as they are.
 *
 * A walk is a function of the caller's registers, the tables, and the words it loads. The kept
 * frames are of one snapshot, and a kept frame stands for the outer ones only if the walk arrives
 * at the very same pc, rsp and rbp: the result is that of walk_plain, at less cost.
 */
#pragma once

#include "agent/kept.h"
#include "agent/walk.h"

/*
 * The three ways beside that of the kept stack, the cheapest first. Each gives 0 where the next one
 * has to be gone, the last one never. They are called by the hook itself, so that each has the
 * stack for itself: hooks run on small ones.
 */

/* The stack is one of late. Frames are kept of the stack that ends at `hi`. */
uint32_t trace_stack_late(
	struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi);

/* The walk goes on from a kept frame, in a deep area where the thread has one (deep.h). */
uint32_t trace_stack_changed(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);

/* The plain walk. */
uint32_t trace_stack_plain(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp);

/* trace_stack without looking at the kept stack first. */
static inline __attribute__((always_inline)) uint32_t trace_stack_other(
	const struct abi_config *config, struct abi_slot *slot, struct walk_start start)
{
	uint32_t id = trace_stack_changed(config, slot, start.pc, start.sp, start.fp);
	if (ht_likely(id != 0))
		return id;
	return trace_stack_plain(config, slot, start.pc, start.sp, start.fp);
}

/*
 * The node id of the stack; what walk_plain and intern_stack give with the snapshot in force,
 * except where it has more than ABI_FRAMES_MAX frames (deep.h). Cut stacks and losses are counted
 * in the slot.
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
