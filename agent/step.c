/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/step.h"

/* The kernel's struct ucontext, to which rsp points when a handler has returned. */
#define UCONTEXT_RBP 120u
#define UCONTEXT_RSP 160u
#define UCONTEXT_RIP 168u

static enum step_result step_signal(struct step_state *state, struct stack *stack)
{
	uint64_t fp, sp, pc;
	if (!stack_load(stack, state->sp, state->sp + UCONTEXT_RBP, &fp) ||
		!stack_load(stack, state->sp, state->sp + UCONTEXT_RSP, &sp) ||
		!stack_load(stack, state->sp, state->sp + UCONTEXT_RIP, &pc) || pc >= STEP_PC_END)
		return STEP_BAD_STACK;
	if (!stack_contains(stack, sp)) {
		if (!stack_open(stack, sp))
			return STEP_BAD_STACK;
	} else if (sp <= state->sp) {
		return STEP_BAD_STACK;
	}
	*state = (struct step_state){pc | STEP_EXACT, sp, fp, STEP_SPECIAL};
	return STEP_OK;
}

static enum step_result step_drap(struct step_state *state, struct stack *stack, uint64_t cfa_at)
{
	uint64_t cfa;
	if (state->fp < state->sp || !stack_load(stack, state->sp, cfa_at, &cfa))
		return STEP_BAD_STACK;
	enum step_result result = step_to(state, stack, cfa, state->fp);
	state->fp_at = STEP_SPECIAL;
	return result;
}

enum step_result step_rare(struct step_state *state, struct stack *stack, uint32_t rule)
{
	uint64_t offset = 8 * (uint64_t)abi_rule_offset(rule);
	uint64_t cfa;
	switch (abi_rule_kind(rule)) {
	case ABI_RULE_DRAP:
		return step_drap(state, stack, state->fp + offset);
	case ABI_RULE_SIGNAL:
		return step_signal(state, stack);
	case ABI_RULE_PLT:
		cfa = state->sp + ((int)(state->pc & 15) >= abi_rule_offset(rule) ? 16 : 8);
		return step_to(state, stack, cfa, 0);
	case ABI_RULE_FRAME:
		if (state->fp < state->sp || !stack_contains(stack, state->fp))
			return STEP_NO_RULE;
		return step_to(state, stack, state->fp + 16, state->fp);
	case ABI_RULE_END:
		return STEP_END;
	case ABI_RULE_NONE:
	case ABI_RULE_RSP:
	case ABI_RULE_RBP:
		break;
	}
	return STEP_NO_RULE;
}
