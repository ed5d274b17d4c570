/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks until it meets the kept stack, and keeps the new frames. Compiled twice with different
 * sizes (kept.h): for stacks in slots (trace.c) and for stacks in deep areas (deep.c).
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

/* Flag of an id: inner frames are missing. */
#define TRACE_CUT (UINT64_C(1) << 32)

/* The function that frame `i` runs (abi_control.h, functions[]); `span`: the part of the stack that
 * may be read directly. */
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

/* Not inlined: its local variables would enlarge the stack frame of trace_intern. */
static HT_NOINLINE uint64_t frame_at(const struct trace *trace, uint64_t i)
{
	return kept_frame(trace, i);
}

/*
 * The id of the stack in `trace`, which is new although its outer frames usually are not. If no
 * node is left: the id of the innermost caller that has a node, and TRACE_CUT.
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

/* Flag in fp_at of a new frame: the frame may hold the function that it runs. The step of such a
 * frame begins at rbp, so TRACE_NEEDS_FP is set anyway and the bit is free. */
#define FRESH_INTERPRETS TRACE_NEEDS_FP

struct trace_walk {
	uint64_t held;	 /* number of outermost kept frames that belong to the stack */
	uint64_t added;	 /* number of new frames inside them */
	uint64_t end_at; /* address of the outermost return address, which is 0; 0: none found */
};

/* Result of a step, and the flags of the frame that it left. */
struct step_outcome {
	enum step_result result;
	uint32_t uses;
};

/* A step whose rule is not in the first entry of its cache set, or is not plain (step_is_plain). */
static HT_NOINLINE struct step_outcome step_by_table(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct stack *stack, struct step_state *state)
{
	uint32_t rule = rules_find(config, snapshot, step_lookup_pc(state));
	struct step_outcome told = {STEP_NO_RULE, uses_fp(rule) ? TRACE_USES_FP : 0};
	if (ht_unlikely(step_interprets(state->pc, rule)))
		told.uses |= FRESH_INTERPRETS;
	if (rule & RULES_HIDDEN)
		return told;
	told.result = step_is_plain(rule) ? step_direct(state, stack->hi, rule)
					  : step_rare(state, stack, rule);
	return told;
}

/*
 * As kept_left, but for frames with STEP_SPECIAL repeats the step in `scratch` and compares its
 * result.
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

/* The lowest rsp at which a walk can meet one of the `held` outermost frames. */
static inline uint64_t edge_of(const struct trace *trace, uint64_t held)
{
	return held ? trace->frame[held - 1].sp : UINT64_MAX;
}

/*
 * Walks until it meets the end of the stack, or one of the `walk->held` outermost kept frames whose
 * outer frames are unchanged. Writes new frames to `fresh`, innermost first. False: this stack
 * cannot be kept, or it has more than TRACE_FRESH_MAX new frames; only then `walk->added` is
 * TRACE_FRESH_MAX.
 */
static inline bool walk_fresh(const struct abi_config *config, const struct abi_snapshot *snapshot,
	struct stack *stack, const struct trace *trace, struct step_state state,
	struct step_state *fresh, struct trace_walk *walk)
{
	const uint64_t *cache = (const uint64_t *)snapshot->cache;
	struct step_state *to = fresh;
	/* Functions that need the state's address get this copy, so that the state itself stays in
	 * registers. */
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
			struct step_outcome told = step_by_table(config, snapshot, stack, &copy);
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

/* The place of a word, in the form of trace.link_at. */
static inline int32_t place_of(uint64_t address, uint64_t hi)
{
	return (int32_t)((int64_t)(address - hi) >> 3);
}

/* Address of the word that holds the function that a new frame runs; 0: none. Load the word only
 * once: other threads may change it. */
static inline uint64_t fresh_word_at(
	const struct abi_config *config, const struct step_state *fresh, uint64_t hi)
{
	uint64_t at = fresh->fp + 8 * (uint64_t)config->interpreted_words;
	return !(at & 7) && at >= fresh->sp && at < hi ? at : 0;
}

/* The node's pc for a new frame that is not kept. */
static inline uint64_t fresh_frame(
	const struct abi_config *config, const struct trace *trace, const struct step_state *fresh)
{
	if (ht_likely(!(fresh->fp_at & FRESH_INTERPRETS)))
		return fresh->pc;
	uint64_t at = fresh_word_at(config, fresh, trace->hi);
	return at ? step_interpreted(fresh->pc, *(const uint64_t *)at, trace->scripts) : fresh->pc;
}

/*
 * Appends the new frames, outermost first, to the held ones as long as there is room; the outermost
 * new frame is the last before `fresh`. Returns the number of kept frames. Notes the words on which
 * each step to a caller depended. `*hash`: in: of the held frames; out: of all.
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
 * Keeps the stack that a walk found and returns its id. 0: no room for it, or only the plain walk
 * can make it.
 */
static inline uint32_t trace_keep(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, struct trace *trace,
	const struct step_state *fresh, struct trace_span span, const struct trace_walk *walk)
{
	uint64_t held = walk->held, whole = held + walk->added;
	uint64_t hash = held ? trace->frame[held - 1].hash : snapshot->epoch;

	if (ht_unlikely(!config_alive(config)))
		return 0;
	/* A handler that jumps out of here leaves an empty trace. */
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
	/* If no frame has a node (id 0), do not count here: the plain walk that follows fails too
	 * and counts the loss. */
	if (ht_unlikely(cut && id != 0))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	/* In a forked child, do not keep the frames: the slot belongs to the parent. */
	if (ht_unlikely(!config_alive(config)))
		return id;
	trace->id = cut || whole > count ? 0 : id;
	store_release(&trace->count, count);
	return id;
}
