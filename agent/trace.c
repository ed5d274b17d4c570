/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/trace.h"

#include "agent/intern.h"
#include "agent/rules.h"

struct trace_frame {
	struct step_state state; /* fp_at: of the step from this frame to its caller */
	uint64_t hash;		 /* of this frame and all outside it */
};

/* Lies in abi_slot.walk. All zero is a trace of nothing. */
struct trace {
	uint64_t snapshot; /* address of the abi_snapshot, and its generation */
	uint32_t generation;
	uint32_t incarnation;
	uint64_t count;	 /* frames; 0 while they change */
	uint64_t end_at; /* a word of the stack that is 0: the outermost return address; 0: none */
	uint64_t id;	 /* of the whole stack */
	struct trace_frame frame[]; /* outermost first */
};

#define TRACE_FRAMES_MAX                                                                           \
	((sizeof(((struct abi_slot *)0)->walk) - sizeof(struct trace)) / sizeof(struct trace_frame))

_Static_assert(TRACE_FRAMES_MAX * sizeof(struct step_state) <= ABI_FRAMES_MAX * sizeof(uint64_t),
	"new frames fit the scratch");
_Static_assert(offsetof(struct abi_slot, walk) % 8 == 0, "the trace is aligned");

static bool same_frame(const struct step_state *a, const struct step_state *b)
{
	return a->sp == b->sp && a->pc == b->pc && a->fp == b->fp;
}

/* Whether the step from `inner`, made again, leads to `outer`. */
static HT_NOINLINE bool special_holds(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct stack *stack, const struct step_state *inner,
	const struct step_state *outer)
{
	struct step_state state = *inner;
	uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
	return !(rule & RULES_HIDDEN) && step_rare(&state, stack, rule) == STEP_OK &&
	       same_frame(&state, outer);
}

/* Whether the words that led from `inner` to `outer` are what they were. */
static bool frame_holds(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct stack *stack, const struct step_state *inner, const struct step_state *outer)
{
	uint64_t fp_at = inner->fp_at, sp = inner->sp, value;
	if (ht_unlikely(fp_at == STEP_SPECIAL))
		return special_holds(config, snapshot, stack, inner, outer);
	if (!stack_load(stack, sp, outer->sp - 8, &value) || value != outer->pc)
		return false;
	return !fp_at || (stack_load(stack, sp, fp_at, &value) && value == outer->fp);
}

/* How many of the kept frames, from the outermost on, a walk from `sp` would find again. */
static uint64_t frames_held(const struct abi_config *config, const struct abi_snapshot *snapshot,
	const struct abi_slot *slot, const struct trace *trace, struct stack *stack, uint64_t sp)
{
	uint64_t count = load_relaxed(&trace->count), value, i;
	if (count == 0 || count > TRACE_FRAMES_MAX || trace->snapshot != (uint64_t)snapshot ||
		trace->generation != snapshot->generation ||
		trace->incarnation != slot->head.incarnation || trace->frame[0].state.sp < sp)
		return 0;
	if (trace->end_at && (!stack_load(stack, sp, trace->end_at, &value) || value != 0))
		return 0;
	for (i = 1; i < count; i++) {
		const struct trace_frame *at = &trace->frame[i];
		if (at->state.sp < sp ||
			!frame_holds(config, snapshot, stack, &at[0].state, &at[-1].state))
			break;
	}
	return i;
}

static HT_NOINLINE uint32_t stack_plain(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, const struct walk_start *start)
{
	uint32_t count = walk_plain(config, snapshot, slot, start);
	bool cut;
	uint32_t id =
		intern_stack(config, snapshot ? snapshot->epoch : 0, slot->frames, count, &cut);
	if (ht_unlikely(cut))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	return id;
}

/* The id of the stack that `trace` holds. */
static uint32_t trace_id(const struct abi_config *config, uint16_t epoch, struct abi_slot *slot,
	const struct trace *trace, uint64_t count, bool *ret_cut)
{
	*ret_cut = false;
	uint32_t id = intern_find(config, trace->frame[count - 1].hash);
	if (ht_likely(id != INTERN_NONE))
		return id;
	for (uint64_t i = 0; i < count; i++)
		slot->frames[i] = trace->frame[count - 1 - i].state.pc;
	return intern_stack(config, epoch, slot->frames, (uint32_t)count, ret_cut);
}

/*
 * Walks until it meets one of the `*held` outermost kept frames, or the stack's end; `*held` is
 * then how many of them belong to the stack. New frames go to `fresh`, innermost first. False: this
 * stack cannot be kept.
 */
static bool walk_fresh(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct stack *stack, const struct trace *trace, struct step_state *state,
	struct step_state *fresh, uint64_t *held, uint64_t *ret_count)
{
	uint64_t count = 0;
	for (;;) {
		while (*held > 0 && trace->frame[*held - 1].state.sp < state->sp)
			--*held;
		if (*held > 0 && same_frame(&trace->frame[*held - 1].state, state))
			break;
		uint32_t rule = rules_find(config, snapshot, step_lookup_pc(state));
		if (ht_unlikely(rule & RULES_HIDDEN || count == TRACE_FRAMES_MAX))
			return false;
		fresh[count] = *state;
		enum step_result result = step(state, stack, rule);
		if (ht_unlikely(result != STEP_OK || state->pc == 0)) {
			fresh[count++].fp_at = 0;
			*held = 0;
			*ret_count = count;
			return result == STEP_END ||
			       (result == STEP_OK && state->fp_at != STEP_SPECIAL);
		}
		fresh[count++].fp_at = state->fp_at;
	}
	*ret_count = count;
	return true;
}

/* Puts the `added` new frames inside the `held` outer ones. */
static void trace_extend(struct trace *trace, uint16_t epoch, uint64_t held,
	const struct step_state *fresh, uint64_t added)
{
	uint64_t hash = held ? trace->frame[held - 1].hash : epoch;
	for (uint64_t i = 0; i < added; i++) {
		struct trace_frame *to = &trace->frame[held + i];
		to->state = fresh[added - 1 - i];
		to->hash = hash = abi_stack_hash(hash, to->state.pc);
	}
}

/* trace_stack by the kept frames. False: this stack cannot be kept. */
static HT_NOINLINE bool stack_traced(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, const struct walk_start *start,
	uint32_t *ret_id)
{
	struct trace *trace = (struct trace *)slot->walk;
	struct step_state state = {.pc = start->pc, .sp = start->sp, .fp = start->fp};
	struct step_state *fresh = (struct step_state *)slot->frames;
	struct stack stack;
	uint64_t added;
	bool cut;

	stack_init(&stack, config, slot);
	stack.direct_only = true;
	if (!stack_open(&stack, state.sp))
		return false;
	uint64_t count = load_relaxed(&trace->count);
	uint64_t held = frames_held(config, snapshot, slot, trace, &stack, state.sp);
	if (!walk_fresh(config, snapshot, &stack, trace, &state, fresh, &held, &added) ||
		held + added > TRACE_FRAMES_MAX || held + added > config->frames_max) {
		store_release(&trace->count, 0);
		return false;
	}
	if (added == 0 && held == count && trace->id != 0) {
		*ret_id = (uint32_t)trace->id;
		return true;
	}

	/* A handler that jumps out of here leaves a trace of nothing. */
	store_release(&trace->count, 0);
	if (held == 0) {
		trace->snapshot = (uint64_t)snapshot;
		trace->generation = snapshot->generation;
		trace->incarnation = slot->head.incarnation;
		trace->end_at = state.pc == 0 ? state.sp - 8 : 0;
	}
	trace_extend(trace, snapshot->epoch, held, fresh, added);
	*ret_id = trace_id(config, snapshot->epoch, slot, trace, held + added, &cut);
	if (ht_unlikely(cut))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	trace->id = cut ? 0 : *ret_id;
	store_release(&trace->count, held + added);
	return true;
}

uint32_t trace_stack(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct abi_slot *slot, const struct walk_start *start)
{
	uint32_t id;
	if (ht_likely(snapshot && !(config->flags & ABI_FLAG_FULL_UNWIND)) &&
		stack_traced(config, snapshot, slot, start, &id))
		return id;
	return stack_plain(config, snapshot, slot, start);
}
