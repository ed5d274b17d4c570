/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks a thread's stack by unwind tables. Reads memory directly only on the thread's primary
 * stack; any other stack is copied by the kernel first. Never faults, even if tables or stack are
 * garbage.
 */
#pragma once

#include "agent/step.h"
#include "agent/thread.h"

/* The registers at which a walk begins: those of a hook's caller, as if the hook had returned. */
struct walk_start {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;
};

static inline struct walk_start walk_start_of(const struct thread_frame *frame)
{
	return (struct walk_start){
		.pc = frame->caller_pc,
		.sp = (uint64_t)frame->caller_stack,
		.fp = frame->caller_fp,
	};
}

/* abi_scripts_of this slot's thread; 0: it has no number. */
static inline uint64_t walk_scripts(
	const struct abi_snapshot *snapshot, const struct abi_slot_head *head)
{
	uint64_t thread = load_relaxed(&head->key) & ~15ull;
	for (uint64_t i = 0; i < ABI_SCRIPTS_THREADS; i++) {
		uint64_t word = load_relaxed(&snapshot->scripts[i]), own = word ^ thread;
		if (ht_likely(word == 0))
			break;
		if (own << (64 - ABI_SCRIPTS_SHIFT) == 0)
			return own >> ABI_SCRIPTS_SHIFT;
	}
	return 0;
}

/*
 * Writes the frames (step.h: PCs, or addresses of interpreted functions), innermost first, to
 * slot->frames and returns their number, at least 1. Counts an incomplete stack in
 * slot->head.trunc. `snapshot` NULL: only the caller.
 */
uint32_t walk_plain(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct abi_slot *slot, const struct walk_start *start);

/* walk_plain also stores the function that each frame runs (abi_control.h, functions[]), for stacks
 * of at most this many frames. */
#define WALK_FUNCTIONS_MAX (ABI_FRAMES_MAX / 2)

/* The functions of the `count` frames that walk_plain found last; NULL: the capture does not
 * collect them, or the stack has more frames. */
static inline const uint64_t *walk_functions(
	const struct abi_config *config, const struct abi_slot *slot, uint32_t count)
{
	bool has = config->functions != 0 && count <= WALK_FUNCTIONS_MAX;
	return has ? slot->frames + WALK_FUNCTIONS_MAX : NULL;
}
