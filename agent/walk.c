/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/walk.h"

#include "agent/rules.h"
#include "agent/stack.h"

/* A signal handler on a stack of its own, interrupted in its turn: more is a forged stack. */
#define WALK_SWITCHES_MAX 8u

/* The kernel's struct ucontext, to which rsp points when a handler has returned. */
#define UCONTEXT_RBP 120u
#define UCONTEXT_RSP 160u
#define UCONTEXT_RIP 168u

enum step_result {
	STEP_OK,
	STEP_END, /* this was the outermost frame */
	STEP_NO_RULE,
	STEP_BAD_STACK,
};

struct walk {
	uint64_t pc, sp, fp;
	uint64_t exact; /* WALK_EXACT or 0 */
	uint32_t switches;
};

static enum step_result step_signal(struct walk *walk, struct stack *stack)
{
	uint64_t fp, sp, pc;
	if (!stack_load(stack, walk->sp, walk->sp + UCONTEXT_RBP, &fp) ||
		!stack_load(stack, walk->sp, walk->sp + UCONTEXT_RSP, &sp) ||
		!stack_load(stack, walk->sp, walk->sp + UCONTEXT_RIP, &pc))
		return STEP_BAD_STACK;
	if (!stack_contains(stack, sp)) {
		if (++walk->switches > WALK_SWITCHES_MAX || !stack_open(stack, sp))
			return STEP_BAD_STACK;
	} else if (sp <= walk->sp) {
		return STEP_BAD_STACK;
	}
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->exact = WALK_EXACT;
	return STEP_OK;
}

/* To the caller whose frame begins at `cfa`; its rbp was saved at `fp_at`, or is unchanged (0). */
static inline enum step_result step_to(
	struct walk *walk, struct stack *stack, uint64_t cfa, uint64_t fp_at)
{
	uint64_t pc;
	if (ht_unlikely(cfa <= walk->sp))
		return STEP_BAD_STACK;
	if (fp_at >= walk->sp && !stack_load(stack, walk->sp, fp_at, &walk->fp))
		return STEP_BAD_STACK;
	if (!stack_load(stack, walk->sp, cfa - 8, &pc))
		return STEP_BAD_STACK;
	walk->pc = pc;
	walk->sp = cfa;
	walk->exact = 0;
	return STEP_OK;
}

static HT_NOINLINE enum step_result step_rare(struct walk *walk, struct stack *stack, uint32_t rule)
{
	uint64_t offset = 8 * (uint64_t)abi_rule_offset(rule);
	uint64_t cfa;
	switch (abi_rule_kind(rule)) {
	case ABI_RULE_DRAP:
		if (!stack_load(stack, walk->sp, walk->fp + offset, &cfa) || walk->fp < walk->sp)
			return STEP_BAD_STACK;
		return step_to(walk, stack, cfa, walk->fp);
	case ABI_RULE_SIGNAL:
		return step_signal(walk, stack);
	case ABI_RULE_PLT:
		cfa = walk->sp + ((int)(walk->pc & 15) >= abi_rule_offset(rule) ? 16 : 8);
		return step_to(walk, stack, cfa, 0);
	case ABI_RULE_FRAME:
		if (walk->fp < walk->sp || !stack_contains(stack, walk->fp))
			return STEP_NO_RULE;
		return step_to(walk, stack, walk->fp + 16, walk->fp);
	case ABI_RULE_END:
		return STEP_END;
	case ABI_RULE_NONE:
	case ABI_RULE_RSP:
	case ABI_RULE_RBP:
		break;
	}
	return STEP_NO_RULE;
}

static inline enum step_result step(struct walk *walk, struct stack *stack, uint32_t rule)
{
	enum abi_rule_kind kind = abi_rule_kind(rule);
	if (ht_unlikely(kind != ABI_RULE_RSP && kind != ABI_RULE_RBP)) {
		struct walk copy = *walk; /* so that *walk itself can stay in registers */
		enum step_result result = step_rare(&copy, stack, rule);
		*walk = copy;
		return result;
	}
	uint64_t base = kind == ABI_RULE_RSP ? walk->sp : walk->fp;
	uint64_t cfa = base + 8 * (uint64_t)abi_rule_offset(rule);
	uint64_t slot = abi_rule_rbp_slot(rule);
	return step_to(walk, stack, cfa, slot ? cfa - 8 * slot : 0);
}

/* The daemon looks for the module of such a PC. */
static HT_NOINLINE void report_unknown(const struct abi_config *config, uint64_t pc)
{
	struct abi_control *control = (struct abi_control *)config->control;
	store_relaxed(&control->unknown_pc, pc);
	fetch_add(&control->unknown_pcs, 1);
}

/* Counts why the walk stopped, unless it came to the stack's end. */
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

uint32_t walk_plain(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct abi_slot *slot, const struct walk_start *start)
{
	struct walk walk = {.pc = start->pc, .sp = start->sp, .fp = start->fp};
	struct stack stack;
	uint32_t count = 0, max = frames_max(config);
	enum step_result result = snapshot ? STEP_OK : STEP_NO_RULE;
	/* The caller is always a frame: it runs. Any other PC must lie in code that is known. */
	stack_init(&stack, config, slot);
	if (result == STEP_OK && !stack_open(&stack, walk.sp))
		result = STEP_BAD_STACK;
	if (result != STEP_OK)
		slot->frames[count++] = walk.pc;
	while (result == STEP_OK) {
		uint32_t rule = rules_find(config, snapshot, walk.pc - !walk.exact);
		if (ht_unlikely(rule == RULES_OUTSIDE)) {
			report_unknown(config, walk.pc);
			if (count == 0)
				slot->frames[count++] = walk.pc;
			result = STEP_NO_RULE;
			break;
		}
		if (count == max)
			break;
		slot->frames[count++] = walk.pc | walk.exact;
		result = step(&walk, &stack, rule);
		if (walk.pc == 0)
			result = STEP_END;
	}
	count_result(slot, result);
	return count;
}
