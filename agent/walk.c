/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/walk.h"

#include "agent/rules.h"

/* Most frames of the agent in one stack. Signal handlers that interrupt the agent leave a few
 * frames for each nesting level. */
#define WALK_HIDDEN_MAX 64u

/* Asks the daemon to look for the module of a PC. */
static HT_NOINLINE void report_unknown(const struct abi_config *config, uint64_t pc)
{
	struct abi_control *control = config_control(config);
	store_relaxed(&control->unknown_pc, pc);
	fetch_add(&control->unknown_pcs, 1);
}

/* Counts why the walk stopped, unless it reached the stack's end. */
static void count_result(struct abi_slot *slot, enum step_result result)
{
	uint64_t *trunc = slot->head.trunc;
	switch (result) {
	case STEP_OK:
		count_add(&trunc[ABI_TRUNC_DEPTH], 1);
		break;
	case STEP_END:
		break;
	case STEP_NO_RULE:
		count_add(&trunc[ABI_TRUNC_NO_RULE], 1);
		break;
	case STEP_BAD_STACK:
		count_add(&trunc[ABI_TRUNC_STACK], 1);
		break;
	}
}

static uint32_t frames_max(const struct abi_config *config)
{
	uint32_t max = config->frames_max;
	return max > ABI_FRAMES_MAX ? ABI_FRAMES_MAX : max ? max : 1;
}

/* The function that the frame at `state` runs (abi_control.h, functions[]); 0: none. */
static uint64_t function_of(const struct abi_config *config, struct stack *stack,
	const struct step_state *state, uint32_t rule)
{
	uint64_t word, at = state->fp + 8 * (uint64_t)config->function_words;
	bool says = abi_rule_kind(rule) == ABI_RULE_FRAME && stack_contains(stack, at) &&
		    stack_load(stack, state->sp, at, &word);
	return says ? word : 0;
}

/* The node's pc for the frame. */
static uint64_t frame_of(const struct abi_snapshot *snapshot, struct stack *stack,
	const struct step_state *state, uint32_t rule)
{
	if (ht_likely(!step_interprets(state->pc, rule)))
		return state->pc;
	uint64_t scripts = walk_scripts(snapshot, &stack->slot->head);
	uint64_t word, at = state->fp + 8 * (uint64_t)abi_rule_offset(rule);
	bool says = stack_contains(stack, at) && stack_load(stack, state->sp, at, &word);
	return says ? step_interpreted(state->pc, word, scripts) : state->pc;
}

uint32_t walk_plain(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct abi_slot *slot, const struct walk_start *start)
{
	struct step_state state = {.pc = start->pc, .sp = start->sp, .fp = start->fp};
	struct stack stack;
	uint32_t count = 0, hidden = 0, max = frames_max(config);
	enum step_result result = snapshot ? STEP_OK : STEP_NO_RULE;
	stack_init(&stack, config, slot);
	if (result == STEP_OK && !stack_open(&stack, state.sp))
		result = STEP_BAD_STACK;
	while (result == STEP_OK) {
		uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
		if (ht_unlikely(rule == RULES_OUTSIDE)) {
			report_unknown(config, state.pc & ~STEP_EXACT);
			result = STEP_NO_RULE;
			break;
		}
		if (count == max)
			break;
		if (ht_unlikely(config->functions) && count < WALK_FUNCTIONS_MAX)
			slot->frames[WALK_FUNCTIONS_MAX + count] =
				function_of(config, &stack, &state, rule);
		if (ht_likely(!(rule & RULES_HIDDEN)))
			slot->frames[count++] = frame_of(snapshot, &stack, &state, rule);
		else if (++hidden == WALK_HIDDEN_MAX)
			break;
		result = step(&state, &stack, rule);
		if (state.pc == 0)
			result = STEP_END;
	}
	count_result(slot, result);
	/* Record the caller even if it has no rule: it certainly runs. */
	if (count == 0) {
		slot->frames[WALK_FUNCTIONS_MAX] = 0;
		slot->frames[count++] = start->pc;
	}
	return count;
}
