/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nested.h"

#include "agent/rules.h"
#include "agent/step.h"
#include "format/abi_hooks.h"

/* Most frames between a hook and a call within it: a library that logs within malloc has a dozen
 * frames. */
#define NESTED_FRAMES_MAX 64u

enum found {
	FOUND,	 /* the outer call's frame exists, with no signal handler in between */
	HANDLER, /* a signal handler came in between */
	UNKNOWN, /* the stack gives no answer */
};

/*
 * Walks from `frame` outwards to the call whose caller's stack pointer is `sp`. `pc`: the return
 * address of that call; 0: that call is a hook's.
 */
static HT_NOINLINE enum found walk_out(const struct abi_config *config, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t sp, uint64_t pc)
{
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	struct step_state state = {.pc = frame->caller_pc,
		.sp = (uint64_t)frame->caller_stack,
		.fp = frame->caller_fp};
	struct stack stack;
	stack_init(&stack, config, slot);
	if (!snapshot || !stack_open(&stack, state.sp))
		return UNKNOWN;
	for (unsigned i = 0; i < NESTED_FRAMES_MAX; i++) {
		uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
		if (rule == RULES_OUTSIDE)
			return UNKNOWN;
		if (abi_rule_kind(rule) == ABI_RULE_SIGNAL)
			return HANDLER;
		if (step(&state, &stack, rule) != STEP_OK)
			return UNKNOWN;
		if (state.sp == sp && (pc ? state.pc == pc : (rule & RULES_HIDDEN) != 0))
			return FOUND;
		/* The walk has passed `sp`: the mark is stale, its hook has ended. */
		if (state.sp >= sp && stack_contains(&stack, sp))
			return UNKNOWN;
	}
	return UNKNOWN;
}

bool nested_is_allocator(const struct abi_thunk *self, uint64_t pc)
{
	/* Read only the page that this call came through: it stays mapped meanwhile, even if it is
	 * the jump page of an earlier capture. */
	uint64_t page = config_of(self)->thunks;
	const struct abi_thunk *thunk = (const struct abi_thunk *)page;
	if (pc - self->real_lo < self->real_len)
		return true;
	if ((uint64_t)self - page >= HT_PAGE_BYTES)
		return false;
	for (unsigned i = 0; i < ABI_THUNK_MAX && thunk[i].real; i++)
		if (abi_is_allocator((enum abi_hook)thunk[i].hook) &&
			pc - thunk[i].real_lo < thunk[i].real_len)
			return true;
	return false;
}

/* Whether the slot's hook waits for a function of the same kind (allocator or mapping). A call of
 * the other kind is not nested: an allocator may map memory, and a replacement of mmap may
 * allocate. */
static bool is_same_kind(const struct abi_thunk *self, const struct abi_slot *slot)
{
	uint32_t state = load_relaxed(&slot->head.state);
	return abi_is_mapping((enum abi_hook)self->hook)
		       ? state == ABI_SLOT_IN_MAPPING || state == ABI_SLOT_IN_UNMAPPING
		       : state == ABI_SLOT_IN_REAL;
}

bool nested_in(
	const struct abi_thunk *self, struct abi_slot *slot, const struct thread_frame *frame)
{
	const struct abi_config *config = config_of(self);
	uint64_t entry_sp = slot->head.entry_sp, pc = frame->caller_pc;
	bool is_near = entry_sp - (uint64_t)frame->caller_stack < NESTED_NEAR_BYTES;
	if (!is_same_kind(self, slot))
		return false;
	/* If an allocator's function ends in a jump to another one, the inner call returns directly
	 * to the hook. */
	if (is_near && (pc - self->real_lo < self->real_len ||
			       pc - config_at(config, ABI_TEXT_OFF) < ABI_TEXT_MAX))
		return true;
	switch (walk_out(config, slot, frame, entry_sp, 0)) {
	case FOUND:
		return true;
	case HANDLER:
		return false;
	case UNKNOWN:
		break;
	}
	return is_near && nested_is_allocator(self, pc);
}

bool nested_in_call(const struct abi_config *config, struct abi_slot *slot,
	const struct thread_frame *frame, uint64_t at, uint64_t pc)
{
	return walk_out(config, slot, frame, at + sizeof(uint64_t), pc) == FOUND;
}
