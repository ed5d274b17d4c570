/* SPDX-License-Identifier: Apache-2.0
 *
 * How a walk goes on from the kept stack, and how its new frames are kept: for the stack of a slot
 * (trace.c) and for that of a deep area (deep.c), each compiled with its own sizes (kept.h).
 */
#pragma once

#include "agent/intern.h"
#include "agent/kept.h"
#include "agent/rules.h"
#include "agent/walk.h"

static bool uses_fp(uint32_t rule)
{
	enum abi_rule_kind kind = abi_rule_kind(rule);
	return kind == ABI_RULE_RBP || kind == ABI_RULE_FRAME || kind == ABI_RULE_DRAP;
}

/* Beside an id: inner frames are missing. */
#define TRACE_CUT (UINT64_C(1) << 32)

/* What frame `i` says that it runs (abi_control.h); `span`: what is read directly of the stack. */
static uint64_t function_of(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct trace_span span, const struct trace *trace, uint64_t i)
{
	const struct trace_frame *frame = &trace->frame[i];
	if (!config->functions || !(trace->flags[i] & TRACE_USES_FP))
		return 0;
	const struct step_state state = {.pc = trace->frame[i].pc};
	uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
	uint64_t at = frame->fp + 8 * (uint64_t)config->function_words, hi = (uint64_t)span.hi;
	if (abi_rule_kind(rule) != ABI_RULE_FRAME || at & 7 || at < frame->sp || at >= hi ||
		(hi - at) / sizeof(uint64_t) > span.words)
		return 0;
	return *(const uint64_t *)at;
}

/* Apart: what the stack of trace_intern has no room for. */
static HT_NOINLINE uint64_t frame_at(const struct trace *trace, uint64_t i)
{
	return kept_frame(trace, i);
}

/*
 * The id of the stack that `trace` holds, which is new; its outer frames seldom are. When no node
 * is left: that of the deepest caller there is, and TRACE_CUT.
 */
static HT_NOINLINE uint64_t trace_intern(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct trace_span span, const struct trace *trace,
	uint64_t count)
{
	uint64_t known = count - 1;
	uint32_t id = 0;
	for (; known > 0; known--) {
		id = intern_find(config, trace->frame[known - 1].hash);
		if (id != INTERN_NONE)
			break;
	}
	for (uint64_t i = known; i < count; i++) {
		uint32_t caller = i ? id : 0;
		id = intern_frame(config, snapshot->epoch, caller, trace->frame[i].hash,
			frame_at(trace, i), function_of(config, snapshot, span, trace, i));
		if (id == INTERN_NONE)
			return caller | TRACE_CUT;
	}
	return id;
}

/* In fp_at of a new frame: it may say what it runs. Its step begins at rbp, so that this is set of
 * it in any case. */
#define FRESH_INTERPRETS TRACE_NEEDS_FP

/* The result of a walk. */
struct trace_walk {
	uint64_t held;	 /* outermost frames that were kept before, and belong to the stack */
	uint64_t added;	 /* new frames inside them */
	uint64_t end_at; /* where the outermost return address, 0, was found; 0: there is none */
};

/* How a step went, and the flags of the frame that it left. */
struct step_told {
	enum step_result result;
	uint32_t uses;
};

/* The step by a rule that is not in the first place of the cache, or not plain. */
static HT_NOINLINE struct step_told step_by_table(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct stack *stack, struct step_state *state)
{
	uint32_t rule = rules_find(config, snapshot, step_lookup_pc(state));
	struct step_told told = {STEP_NO_RULE, uses_fp(rule) ? TRACE_USES_FP : 0};
	if (ht_unlikely(step_interprets(state->pc, rule)))
		told.uses |= FRESH_INTERPRETS;
	if (rule & RULES_HIDDEN)
		return told;
	told.result = step_is_plain(rule) ? step_direct(state, stack->hi, rule)
					  : step_rare(state, stack, rule);
	return told;
}

/*
 * kept_left of what is met in a walk: steps are made again that loaded more than a return
 * address, in `scratch`.
 */
static inline uint64_t frames_left_special(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct stack *stack, const struct trace *trace,
	uint64_t count, uint64_t sp, struct step_state *scratch)
{
	for (;;) {
		uint64_t left = kept_left(trace, count, span_from(sp, stack->hi));
		if (ht_likely(left == TRACE_INTACT) || left == 0 ||
			!(trace->flags[left] & STEP_SPECIAL))
			return left;
		scratch->pc = trace->frame[left].pc;
		scratch->sp = load_relaxed(&trace->frame[left].sp);
		scratch->fp = trace->frame[left].fp;
		if (scratch->sp - sp >= stack->hi - sp ||
			step_by_table(config, snapshot, stack, scratch).result != STEP_OK ||
			trace->frame[left - 1].sp != scratch->sp ||
			!kept_goes_on(trace, left - 1, scratch))
			return left;
		count = left;
	}
}

/* From which rsp on a walk may have come to one of the `held` outermost frames. */
static inline uint64_t edge_of(const struct trace *trace, uint64_t held)
{
	return held ? trace->frame[held - 1].sp : UINT64_MAX;
}

/*
 * Walks until it meets one of the `walk->held` outermost kept frames, from which those outside it
 * are found again, or the stack's end. New frames go to `fresh`, innermost first. False: this stack
 * cannot be kept, or there are more than TRACE_FRESH_MAX new frames (`walk->added` of them).
 */
static inline bool walk_fresh(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct stack *stack, const struct trace *trace, struct step_state state,
	struct step_state *fresh, struct trace_walk *walk)
{
	const uint64_t *cache = (const uint64_t *)snapshot->cache;
	struct step_state *to = fresh;
	/* What others write to, so that the state itself can stay in registers. */
	struct step_state copy;
	uint64_t held = walk->held, edge = edge_of(trace, held), hi = stack->hi;
	for (;;) {
		while (state.sp > edge)
			edge = edge_of(trace, --held);
		if (state.sp == edge) {
			if (kept_goes_on(trace, held - 1, &state)) {
				uint64_t left = frames_left_special(
					config, snapshot, stack, trace, held, state.sp, &copy);
				if (ht_likely(left == TRACE_INTACT))
					break;
				held = left;
			} else {
				held--;
			}
			edge = edge_of(trace, held);
		}
		if (ht_unlikely(to == fresh + TRACE_FRESH_MAX)) {
			walk->added = TRACE_FRESH_MAX;
			return false;
		}
		to->pc = state.pc;
		to->sp = state.sp;
		to->fp = state.fp;
		uint32_t rule = rules_cached(cache, step_lookup_pc(&state));
		uint64_t uses = abi_rule_kind(rule) == ABI_RULE_RBP ? TRACE_USES_FP : 0;
		enum step_result result;
		if (ht_likely(step_is_plain(rule))) {
			result = step_direct(&state, hi, rule);
		} else {
			copy = state;
			struct step_told told = step_by_table(config, snapshot, stack, &copy);
			state = copy;
			result = told.result;
			uses = told.uses;
		}
		if (ht_unlikely(result != STEP_OK || state.pc == 0)) {
			if (result != STEP_END &&
				(result != STEP_OK || state.fp_at == STEP_SPECIAL))
				return false;
			to++->fp_at = uses;
			walk->end_at = result == STEP_OK ? state.sp - 8 : 0;
			held = 0;
			break;
		}
		to++->fp_at = state.fp_at | uses;
	}
	walk->held = held;
	walk->added = (uint64_t)(to - fresh);
	return true;
}

/* Where a word lies, as in trace.link_at. */
static inline int32_t place_of(uint64_t address, uint64_t hi)
{
	return (int32_t)((int64_t)(address - hi) >> 3);
}

/* Where a new frame says what it runs; 0: nowhere. What lies there is loaded once, so that all that
 * is made of it is of one word, whoever else writes it. */
static inline uint64_t fresh_word_at(
	const struct abi_config *config, const struct step_state *fresh, uint64_t hi)
{
	uint64_t at = fresh->fp + 8 * (uint64_t)config->interpreted_words;
	return !(at & 7) && at >= fresh->sp && at < hi ? at : 0;
}

/* As what a new frame is written down that is not kept. */
static inline uint64_t fresh_frame(
	const struct abi_config *config, const struct trace *trace, const struct step_state *fresh)
{
	if (ht_likely(!(fresh->fp_at & FRESH_INTERPRETS)))
		return fresh->pc;
	uint64_t at = fresh_word_at(config, fresh, trace->hi);
	return at ? step_interpreted(fresh->pc, *(const uint64_t *)at, trace->scripts) : fresh->pc;
}

/*
 * Puts the new frames, of which the outermost is the last before `fresh`, inside the held outer
 * ones as long as there is room, and returns how many there are then. Notes which words each step
 * to a caller depended on. `*hash`: of the held frames, then of all.
 */
static uint64_t trace_extend(const struct abi_config *config, struct trace *trace,
	const struct trace_walk *walk, const struct step_state *fresh, uint64_t *hash)
{
	uint64_t i = walk->held, whole = i + walk->added, hi = trace->hi;
	uint64_t count = whole < TRACE_FRAMES_MAX ? whole : TRACE_FRAMES_MAX;
	uint64_t links = kept_links(trace, i);
	uint64_t outer_pc = i ? trace->frame[i - 1].pc : 0;
	uint64_t ret_at = i ? trace->frame[i - 1].sp - 8 : walk->end_at;
	uint64_t outer_needs = i ? trace->flags[i - 1] & TRACE_NEEDS_FP : 0;
	for (; i < count && links <= TRACE_LINKS_MAX - 3; i++) {
		const struct step_state *inner = --fresh;
		uint64_t flags = inner->fp_at & 7, frame = inner->pc;
		if (ht_likely(ret_at != 0)) {
			trace->link_at[links] = flags & STEP_SPECIAL ? 0 : place_of(ret_at, hi);
			trace->link_word[links++] = outer_pc;
		}
		if (flags | outer_needs) {
			uint64_t fp_at = inner->fp_at & ~7ull;
			if (outer_needs && fp_at) {
				trace->link_at[links] = place_of(fp_at, hi);
				trace->link_word[links++] = trace->frame[i - 1].fp;
			}
			if (flags || !fp_at)
				flags |= TRACE_NEEDS_FP;
			uint64_t at = 0;
			if (ht_unlikely(inner->fp_at & FRESH_INTERPRETS) && trace->scripts)
				at = fresh_word_at(config, inner, hi);
			if (ht_unlikely(at != 0)) {
				uint64_t word = *(const uint64_t *)at;
				trace->link_at[links] = place_of(at, hi);
				trace->link_word[links++] = word;
				flags |= TRACE_INTERPRETS;
				frame = step_interpreted(frame, word, trace->scripts);
			}
		}
		outer_pc = inner->pc;
		*hash = abi_stack_hash(*hash, frame);
		trace->link_end[i] = (uint16_t)links;
		trace->frame[i] = (struct trace_frame){outer_pc, inner->sp, inner->fp, *hash};
		trace->flags[i] = (uint8_t)flags;
		ret_at = inner->sp - 8;
		outer_needs = flags & TRACE_NEEDS_FP;
	}
	for (uint64_t more = whole - i; more > 0; more--)
		*hash = abi_stack_hash(*hash, fresh_frame(config, trace, --fresh));
	return i;
}

/*
 * Keeps what a walk has found, with its new frames, and returns the id; 0: there is no room for
 * any, or the plain walk has to make it.
 */
static inline uint32_t trace_keep(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, struct trace *trace,
	const struct step_state *fresh, struct trace_span span, const struct trace_walk *walk)
{
	uint64_t held = walk->held, whole = held + walk->added;
	uint64_t hash = held ? trace->frame[held - 1].hash : snapshot->epoch;

	if (ht_unlikely(!config_alive(config)))
		return 0;
	/* A handler that jumps out of here leaves a trace of nothing. */
	store_release(&trace->count, 0);
	if (held == 0) {
		trace->snapshot = (uint64_t)snapshot;
		trace->generation = snapshot->generation;
		trace->incarnation = slot->head.incarnation;
		trace->hi = (uint64_t)span.hi;
		trace->scripts = walk_scripts(snapshot, &slot->head);
		trace->version++;
	}
	uint64_t count = trace_extend(config, trace, walk, fresh + walk->added, &hash);
	uint64_t found = intern_find(config, hash);
	if (ht_unlikely(found == INTERN_NONE))
		found = whole > count ? 0 : trace_intern(config, snapshot, span, trace, count);
	uint32_t id = (uint32_t)found;
	bool cut = found & TRACE_CUT;
	/* Of nothing at all the plain walk gets no more, and counts it. */
	if (ht_unlikely(cut && id != 0))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	/* A forked child's are of a stack that its parent has left long ago. */
	if (ht_unlikely(!config_alive(config)))
		return id;
	trace->id = cut || whole > count ? 0 : id;
	store_release(&trace->count, count);
	return id;
}
