/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of a walk: from a frame to its caller, by a rule (format/abi_unwind.h). What a step
 * finds depends on nothing but the frame's state, the rule, and the words of the stack that it
 * loads.
 */
#pragma once

#include "agent/stack.h"
#include "format/abi_unwind.h"

/* Flag in a frame's PC: the PC of an interrupted instruction, not a return address. */
#define STEP_EXACT (1ull << 63)

/* Flag in a frame's PC: not a PC but the address of the function that an interpreter runs. */
#define STEP_INTERPRETED (1ull << 62)

/* No code lies here or above. */
#define STEP_PC_END (1ull << 47)

/* Flag in fp_at: the step loaded words other than a return address and one saved rbp. */
#define STEP_SPECIAL 1u

enum step_result {
	STEP_OK,
	STEP_END, /* this was the outermost frame */
	STEP_NO_RULE,
	STEP_BAD_STACK,
};

struct step_state {
	uint64_t pc; /* with the flag STEP_EXACT */
	uint64_t sp, fp;
	uint64_t fp_at; /* where the last step loaded `fp`; 0: `fp` unchanged; or STEP_SPECIAL */
};

/* The PC whose rule is in force: return addresses may lie behind the end of their function. */
static inline uint64_t step_lookup_pc(const struct step_state *state)
{
	return state->pc & STEP_EXACT ? state->pc & ~STEP_EXACT : state->pc - 1;
}

/* Whether, by this rule, the frame at `pc` holds the function that it runs. False for an
 * interrupted frame, which may be incomplete. */
static inline bool step_interprets(uint64_t pc, uint32_t rule)
{
	return abi_rule_kind(rule) == ABI_RULE_FRAME && abi_rule_offset(rule) != 0 &&
	       !(pc & STEP_EXACT);
}

/* The node's pc for the frame at `pc` whose function word is `word`. It is the plain PC if the word
 * cannot be a pointer or `scripts` (walk_scripts) is 0. */
static inline uint64_t step_interpreted(uint64_t pc, uint64_t word, uint64_t scripts)
{
	bool is_pointer = (word & 7) == 1 && word > HT_PAGE_BYTES && word < STEP_PC_END;
	if (!is_pointer || scripts == 0)
		return pc;
	return (word - 1) | (scripts & ABI_SCRIPTS_MAX) << ABI_SCRIPTS_SHIFT | STEP_EXACT |
	       STEP_INTERPRETED;
}

/* step() for the rules that compilers seldom need. */
enum step_result step_rare(struct step_state *state, struct stack *stack, uint32_t rule);

/* Steps to the caller, whose frame begins at `cfa`. Its rbp was saved at `fp_at`; 0: rbp is
 * unchanged. */
HT_MUST_CHECK
static inline enum step_result step_to(
	struct step_state *state, struct stack *stack, uint64_t cfa, uint64_t fp_at)
{
	uint64_t pc;
	/* If the saved rbp lies below rsp, the function has already popped it: rbp is the
	 * caller's. */
	state->fp_at = fp_at >= state->sp ? fp_at : 0;
	if (state->fp_at && !stack_load(stack, state->sp, fp_at, &state->fp))
		return STEP_BAD_STACK;
	/* stack_load refuses addresses below rsp, so the CFA lies above it and every walk goes
	 * outwards. */
	if (!stack_load(stack, state->sp, cfa - 8, &pc) || pc >= STEP_PC_END)
		return STEP_BAD_STACK;
	state->pc = pc;
	state->sp = cfa;
	return STEP_OK;
}

/* Steps to the caller. After any result but STEP_OK the state is undefined. */
HT_MUST_CHECK
static inline enum step_result step(struct step_state *state, struct stack *stack, uint32_t rule)
{
	enum abi_rule_kind kind = abi_rule_kind(rule);
	if (ht_unlikely(kind != ABI_RULE_RSP && kind != ABI_RULE_RBP)) {
		struct step_state copy = *state; /* so that *state itself can stay in registers */
		enum step_result result = step_rare(&copy, stack, rule);
		*state = copy;
		return result;
	}
	uint64_t base = kind == ABI_RULE_RSP ? state->sp : state->fp;
	uint64_t cfa = base + 8 * (uint64_t)abi_rule_offset(rule);
	uint64_t slot = abi_rule_rbp_slot(rule);
	return step_to(state, stack, cfa, slot ? cfa - 8 * slot : 0);
}

/* Whether step_direct can make the step. */
static inline bool step_is_plain(uint32_t rule)
{
	return (uint32_t)abi_rule_kind(rule) - ABI_RULE_RSP <= ABI_RULE_RBP - ABI_RULE_RSP;
}

/*
 * step() for the rules of most code, on a stack that is read directly and ends at the aligned `hi`.
 * In one function, so that the state stays in registers.
 */
HT_MUST_CHECK
static inline enum step_result step_direct(struct step_state *state, uint64_t hi, uint32_t rule)
{
	uint64_t sp = state->sp, pc;
	uint64_t base = abi_rule_kind(rule) == ABI_RULE_RSP ? sp : state->fp;
	uint64_t cfa = base + 8 * (uint64_t)abi_rule_offset(rule);
	uint64_t slot = abi_rule_rbp_slot(rule);
	state->fp_at = 0;
	if (slot && cfa - 8 * slot >= sp) {
		uint64_t fp_at = cfa - 8 * slot;
		if (ht_unlikely(fp_at & 7 || fp_at >= hi))
			return STEP_BAD_STACK;
		state->fp_at = fp_at;
		state->fp = *(const uint64_t *)fp_at;
	}
	/* Bytes from the CFA to `hi` must be fewer than from rsp. Rotated right, so that an
	 * unaligned count becomes huge and fails the same check. */
	uint64_t bytes = hi - cfa;
	if (ht_unlikely((bytes >> 3 | bytes << 61) >= (hi - sp) >> 3))
		return STEP_BAD_STACK;
	pc = *(const uint64_t *)(cfa - 8);
	state->pc = pc;
	state->sp = cfa;
	return ht_likely(pc < STEP_PC_END) ? STEP_OK : STEP_BAD_STACK;
}
