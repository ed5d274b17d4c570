/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/trace.h"

#include "agent/intern.h"
#include "agent/rules.h"

/* In trace_frame.state.fp_at, beside STEP_SPECIAL. */
#define TRACE_USES_FP  2u /* the step to the caller begins at rbp */
#define TRACE_NEEDS_FP 4u /* some step from here on does, with the rbp of this frame */

struct trace_frame {
	struct step_state state; /* fp_at: of the step from this frame to its caller */
	uint64_t hash;		 /* of this frame and all outside it */
};

/* A word of the stack that led from a frame to its caller. */
struct trace_link {
	uint64_t at; /* 0: the step loaded more than a return address, and is made again */
	uint64_t word;
};

struct trace_fp_link {
	uint64_t frame; /* index of the frame that was left */
	struct trace_link link;
};

#define TRACE_FRAMES_MAX                                                                           \
	((sizeof(((struct abi_slot *)0)->walk) - 64) /                                             \
		(sizeof(struct trace_frame) + sizeof(struct trace_link) +                          \
			sizeof(struct trace_fp_link)))

/* Lies in abi_slot.walk. All zero is a trace of nothing. Frames are outermost first. */
struct trace {
	uint64_t snapshot; /* address of the abi_snapshot, and its generation */
	uint32_t generation;
	uint32_t incarnation;
	uint64_t count; /* frames; 0 while they change */
	uint64_t id;	/* of the whole stack */
	uint64_t fp_count;
	/* link[0]: the word that is 0, the outermost return address; `at` 0: there is none. */
	struct trace_link link[TRACE_FRAMES_MAX];
	struct trace_fp_link fp_link[TRACE_FRAMES_MAX];
	struct trace_frame frame[TRACE_FRAMES_MAX];
};

_Static_assert(sizeof(struct trace) <= sizeof(((struct abi_slot *)0)->walk), "a trace fits");
_Static_assert(TRACE_FRAMES_MAX * sizeof(struct step_state) <= ABI_FRAMES_MAX * sizeof(uint64_t),
	"new frames fit the scratch");
_Static_assert(offsetof(struct abi_slot, walk) % 8 == 0, "the trace is aligned");

/* Whether a walk that is at `state` goes on as it did from `frame`. */
static bool same_frame(const struct trace_frame *frame, const struct step_state *state)
{
	return frame->state.sp == state->sp && frame->state.pc == state->pc &&
	       (frame->state.fp == state->fp || !(frame->state.fp_at & TRACE_NEEDS_FP));
}

static bool uses_fp(uint32_t rule)
{
	enum abi_rule_kind kind = abi_rule_kind(rule);
	return kind == ABI_RULE_RBP || kind == ABI_RULE_FRAME || kind == ABI_RULE_DRAP;
}

/* Whether the step from `inner`, made again, leads to `outer`. */
static HT_NOINLINE bool special_holds(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct stack *stack, const struct trace_frame *inner,
	const struct trace_frame *outer)
{
	struct step_state state = inner->state;
	uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
	return !(rule & RULES_HIDDEN) && step_rare(&state, stack, rule) == STEP_OK &&
	       same_frame(outer, &state);
}

/* The words of the stack from `sp` on. */
struct trace_span {
	uint64_t sp, words;
};

static bool link_holds(const struct trace_link *link, struct trace_span span)
{
	uint64_t at = link->at, offset = at - span.sp;
	/* Rotated: what is not a whole number of words is far beyond the end. */
	return (offset >> 3 | offset << 61) < span.words && *(const uint64_t *)at == link->word;
}

/* The first link from `i` on that does not hold; `count` if all do. */
static uint64_t links_held(
	const struct trace *trace, uint64_t i, uint64_t count, struct trace_span span)
{
	while (i < count && link_holds(&trace->link[i], span))
		i++;
	return i;
}

/* How many of `frames` are led to by the saved rbp that they were led to by. */
static uint64_t fp_links_held(const struct trace *trace, uint64_t frames, struct trace_span span)
{
	uint64_t count = load_relaxed(&trace->fp_count);
	for (uint64_t i = 0; i < count && i < TRACE_FRAMES_MAX; i++) {
		uint64_t frame = load_relaxed(&trace->fp_link[i].frame);
		if (frame >= frames)
			break;
		if (!link_holds(&trace->fp_link[i].link, span))
			return frame;
	}
	return frames;
}

/* Number of kept frames; 0 where none is of this thread and of the snapshot in force. */
static uint64_t frames_kept(
	const struct trace *trace, const struct abi_slot *slot, const struct abi_snapshot *snapshot)
{
	uint64_t count = load_relaxed(&trace->count);
	bool kept = count <= TRACE_FRAMES_MAX && trace->snapshot == (uint64_t)snapshot &&
		    trace->incarnation == slot->head.incarnation &&
		    trace->generation == snapshot->generation;
	return kept ? count : 0;
}

/*
 * How many of the kept frames, from the outermost on, a walk from `sp` would find again if it came
 * to the innermost of them.
 */
static uint64_t frames_held(const struct abi_config *config, const struct abi_snapshot *snapshot,
	const struct trace *trace, uint64_t count, struct stack *stack, uint64_t sp)
{
	struct trace_span span = {sp, (stack->hi - sp) / sizeof(uint64_t)};
	if (count == 0 || (trace->link[0].at && !link_holds(&trace->link[0], span)))
		return 0;
	uint64_t held = 0;
	do
		held = links_held(trace, held + 1, count, span);
	while (held < count && trace->frame[held].state.fp_at & STEP_SPECIAL &&
		trace->frame[held].state.sp >= sp &&
		special_holds(
			config, snapshot, stack, &trace->frame[held], &trace->frame[held - 1]));
	return fp_links_held(trace, held, span);
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
		if (*held > 0 && same_frame(&trace->frame[*held - 1], state))
			break;
		uint32_t rule = rules_find(config, snapshot, step_lookup_pc(state));
		if (ht_unlikely(rule & RULES_HIDDEN || count == TRACE_FRAMES_MAX))
			return false;
		fresh[count] = *state;
		enum step_result result = step(state, stack, rule);
		uint64_t uses = uses_fp(rule) ? TRACE_USES_FP : 0;
		if (ht_unlikely(result != STEP_OK || state->pc == 0)) {
			fresh[count++].fp_at = uses;
			*held = 0;
			*ret_count = count;
			return result == STEP_END ||
			       (result == STEP_OK && state->fp_at != STEP_SPECIAL);
		}
		fresh[count++].fp_at = state->fp_at | uses;
	}
	*ret_count = count;
	return true;
}

/* Notes which words the step from frame `i` to its caller depended on. */
static void trace_link(struct trace *trace, uint64_t i)
{
	struct step_state *inner = &trace->frame[i].state;
	const struct step_state *outer = &trace->frame[i - 1].state;
	uint64_t fp_at = inner->fp_at & ~7ull;
	bool outer_needs = outer->fp_at & TRACE_NEEDS_FP;

	if (inner->fp_at & STEP_SPECIAL) {
		trace->link[i] = (struct trace_link){0};
		inner->fp_at |= TRACE_NEEDS_FP;
		return;
	}
	trace->link[i] = (struct trace_link){outer->sp - 8, outer->pc};
	if (inner->fp_at & TRACE_USES_FP || (outer_needs && !fp_at))
		inner->fp_at |= TRACE_NEEDS_FP;
	if (outer_needs && fp_at && trace->fp_count < TRACE_FRAMES_MAX)
		trace->fp_link[trace->fp_count++] = (struct trace_fp_link){i, {fp_at, outer->fp}};
}

/* Puts the `added` new frames inside the `held` outer ones. */
static void trace_extend(struct trace *trace, uint16_t epoch, uint64_t held,
	const struct step_state *fresh, uint64_t added)
{
	uint64_t hash = held ? trace->frame[held - 1].hash : epoch;
	uint64_t fp_count = trace->fp_count < TRACE_FRAMES_MAX ? trace->fp_count : 0;
	while (fp_count > 0 && trace->fp_link[fp_count - 1].frame >= held)
		fp_count--;
	trace->fp_count = fp_count;
	for (uint64_t i = held; i < held + added; i++) {
		struct trace_frame *to = &trace->frame[i];
		to->state = fresh[held + added - 1 - i];
		to->hash = hash = abi_stack_hash(hash, to->state.pc);
		if (i > 0)
			trace_link(trace, i);
		else if (to->state.fp_at & TRACE_USES_FP)
			to->state.fp_at |= TRACE_NEEDS_FP;
	}
}

/*
 * Keeps the `held` outer frames and, inside them, the `added` ones in slot->frames, and returns
 * their id; 0: there is no room for any. `end_at`: where the outermost return address, 0, was
 * found; 0: there is none.
 */
static HT_NOINLINE uint32_t trace_keep(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, uint64_t end_at, uint64_t held,
	uint64_t added)
{
	struct trace *trace = (struct trace *)slot->walk;
	bool cut;

	/* A handler that jumps out of here leaves a trace of nothing. */
	store_release(&trace->count, 0);
	if (held == 0) {
		trace->snapshot = (uint64_t)snapshot;
		trace->generation = snapshot->generation;
		trace->incarnation = slot->head.incarnation;
		trace->link[0] = (struct trace_link){end_at, 0};
	}
	trace_extend(trace, snapshot->epoch, held, (const struct step_state *)slot->frames, added);
	uint32_t id = trace_id(config, snapshot->epoch, slot, trace, held + added, &cut);
	/* Of nothing at all the plain walk gets no more, and counts it. */
	if (ht_unlikely(cut && id != 0))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	trace->id = cut ? 0 : id;
	store_release(&trace->count, held + added);
	return id;
}

/* trace_stack by the kept frames. 0: this stack cannot be kept. */
static HT_NOINLINE uint32_t stack_traced(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, const struct walk_start *start)
{
	struct trace *trace = (struct trace *)slot->walk;
	struct step_state state = {.pc = start->pc, .sp = start->sp, .fp = start->fp};
	struct stack stack;
	uint64_t added;

	stack_init(&stack, config, slot);
	stack.direct_only = true;
	if (!stack_open_primary(&stack, state.sp))
		return 0;
	uint64_t count = frames_kept(trace, slot, snapshot);
	uint64_t held = frames_held(config, snapshot, trace, count, &stack, state.sp);
	if (!walk_fresh(config, snapshot, &stack, trace, &state, (struct step_state *)slot->frames,
		    &held, &added) ||
		held + added > TRACE_FRAMES_MAX || held + added > config->frames_max) {
		store_release(&trace->count, 0);
		return 0;
	}
	if (added == 0 && held == count && trace->id != 0)
		return (uint32_t)trace->id;
	return trace_keep(config, snapshot, slot, state.pc == 0 ? state.sp - 8 : 0, held, added);
}

/* The id if the whole stack is what it was, 0 otherwise. */
static uint32_t stack_unchanged(const struct abi_config *config, const struct abi_slot *slot,
	const struct walk_start *start)
{
	const struct trace *trace = (const struct trace *)slot->walk;
	const struct abi_snapshot *snapshot =
		(const struct abi_snapshot *)load_acquire(&config->unwind);
	uint64_t lo, hi, sp = start->sp;
	if (!snapshot || !slot_bounds(&slot->head, &lo, &hi) || sp < lo || sp >= hi)
		return 0;
	uint64_t count = frames_kept(trace, slot, snapshot);
	struct trace_span span = {sp, (hi - sp) / sizeof(uint64_t)};
	struct step_state state = {.pc = start->pc, .sp = sp, .fp = start->fp};
	if (count == 0 || !same_frame(&trace->frame[count - 1], &state) ||
		(trace->link[0].at && !link_holds(&trace->link[0], span)) ||
		links_held(trace, 1, count, span) < count ||
		fp_links_held(trace, count, span) < count)
		return 0;
	return (uint32_t)trace->id;
}

static HT_NOINLINE uint32_t stack_changed(
	const struct abi_config *config, struct abi_slot *slot, const struct walk_start *start)
{
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	uint32_t id = 0;
	if (snapshot && !(config->flags & ABI_FLAG_FULL_UNWIND))
		id = stack_traced(config, snapshot, slot, start);
	return id ? id : stack_plain(config, snapshot, slot, start);
}

uint32_t trace_stack(
	const struct abi_config *config, struct abi_slot *slot, const struct walk_start *start)
{
	uint32_t id = stack_unchanged(config, slot, start);
	return ht_likely(id != 0) ? id : stack_changed(config, slot, start);
}
