/* SPDX-License-Identifier: Apache-2.0 */
#define TRACE_DEEP

#include "agent/deep.h"

#include "agent/config.h"
#include "agent/follow.h"

_Static_assert(TRACE_FRESH_MAX == TRACE_FRAMES_MAX, "what a walk finds at once can be kept");

/* A stack with fewer frames fits a slot. */
#define DEEP_END_FRAMES 128u

static uint64_t owner_of(const struct abi_config *config, const struct abi_slot *slot)
{
	uint64_t index = ((uint64_t)slot - (uint64_t)config_slots(config)) / ABI_SLOT_BYTES;
	return abi_deep_owner(load_relaxed(&slot->head.incarnation), index);
}

/* Whether the owning thread has ended: its slot then has another incarnation, which never recurs.
 */
static bool owner_is_gone(const struct abi_config *config, uint64_t owner)
{
	uint64_t index = (uint32_t)owner - UINT64_C(1);
	if (index > config->slot_mask)
		return true;
	const struct abi_slot_head *head = &config_slots(config)[index].head;
	uint64_t key = load_acquire(&head->key);
	return key == 0 || key & ABI_SLOT_DEAD || load_relaxed(&head->incarnation) != owner >> 32;
}

static struct abi_deep *area_at(const struct abi_config *config, uint64_t i)
{
	return (struct abi_deep *)config_at(config, ABI_DEEP_OFF + i * ABI_DEEP_BYTES);
}

/* The members before the arrays are the same in the slot's struct trace and in the larger one of
 * this file. */
static struct trace *slot_trace(struct abi_slot *slot)
{
	return (struct trace *)slot->walk;
}

void deep_begin(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t *owners = config_control(config)->deep_owner, mine = owner_of(config, slot);
	if (config->frames_max < TRACE_FRAMES_MAX || !config_alive(config))
		return;
	for (uint64_t i = 0; i < ABI_DEEP_COUNT; i++) {
		uint64_t owner = load_acquire(&owners[i]);
		bool is_free = owner == 0 || owner == mine || owner_is_gone(config, owner);
		if (!is_free || !compare_swap(&owners[i], &owner, mine))
			continue;
		store_release(&((struct trace *)area_at(config, i)->walk)->count, 0);
		store_release(&slot_trace(slot)->count, 0);
		store_release(&slot_trace(slot)->deep, i + 1);
		return;
	}
}

/* The area that the slot's thread owns. NULL: it owns none, or another thread has taken it. */
static struct abi_deep *area_of(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t number = load_relaxed(&slot_trace(slot)->deep);
	const uint64_t *owners = config_control(config)->deep_owner;
	bool is_ours = number - 1 < ABI_DEEP_COUNT &&
		       load_acquire(&owners[number - 1]) == owner_of(config, slot);
	return is_ours ? area_at(config, number - 1) : NULL;
}

static HT_NOINLINE void deep_end(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t number = load_relaxed(&slot_trace(slot)->deep), mine = owner_of(config, slot);
	if (!config_alive(config))
		return;
	store_release(&slot_trace(slot)->deep, 0);
	if (number - 1 < ABI_DEEP_COUNT)
		compare_swap(&config_control(config)->deep_owner[number - 1], &mine, 0);
}

/* Drops the `drop` outermost of `count` kept frames. The outermost frame that stays then has no
 * caller. */
static void frames_drop(
	struct trace *trace, const struct abi_snapshot *snapshot, uint64_t drop, uint64_t count)
{
	uint64_t from = kept_links(trace, drop + 1), end = kept_links(trace, count);
	/* The last link of the new outermost frame may hold the function that it runs: keep that
	 * link. */
	if (trace->flags[drop] & TRACE_INTERPRETS && from > 0)
		from--;
	for (uint64_t i = from; i < end; i++) {
		trace->link_word[i - from] = trace->link_word[i];
		trace->link_at[i - from] = trace->link_at[i];
	}
	uint64_t hash = snapshot->epoch;
	for (uint64_t i = drop; i < count; i++) {
		uint64_t links = kept_links(trace, i + 1), to = i - drop;
		trace->frame[to] = trace->frame[i];
		trace->flags[to] = trace->flags[i];
		trace->link_end[to] = (uint16_t)(links > from ? links - from : 0);
		hash = abi_stack_hash(hash, kept_frame(trace, to));
		trace->frame[to].hash = hash;
	}
}

/* A value of trace.outside: the stack is cut; the number of frames outside is not yet known. */
#define OUTSIDE_UNKNOWN UINT64_MAX

/*
 * Counts the frames outside the outermost kept one, up to ABI_FRAMES_MAX. Other threads may have
 * overwritten the kept frame, so its stack pointer is used only if it lies between `sp`, from which
 * the stack is mapped, and the stack's end.
 */
static HT_NOINLINE void outside_count(
	const struct abi_config *config, struct abi_slot *slot, struct trace *trace, uint64_t sp)
{
	struct step_state state = {
		.pc = trace->frame[0].pc, .sp = trace->frame[0].sp, .fp = trace->frame[0].fp};
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	uint64_t count = 0;
	struct stack stack;

	stack_init(&stack, config, slot);
	stack.direct_only = true;
	if (snapshot && stack_open_primary(&stack, sp) && state.sp - sp < stack.hi - sp) {
		for (; count < ABI_FRAMES_MAX; count++) {
			uint32_t rule = rules_find(config, snapshot, step_lookup_pc(&state));
			if (rule & RULES_HIDDEN || step(&state, &stack, rule) != STEP_OK ||
				state.pc == 0)
				break;
		}
	}
	trace->outside = count > 1 ? count : 1;
}

/* The number of outermost frames to cut from the stack that `walk` has found. */
static uint64_t drop_of(const struct trace_walk *walk)
{
	uint64_t count = walk->held + walk->added;
	uint64_t more = count > TRACE_FRAMES_MAX ? count - TRACE_FRAMES_MAX : 0;
	return ht_align_up(more, DEEP_CUT_FRAMES);
}

/* Whether the outermost kept frame, with `outside` frames cut off outside it, may stay the
 * outermost. True if enough kept frames remain and the whole stack does not fit. */
static bool edge_stays(const struct trace_walk *walk, uint64_t outside)
{
	uint64_t count = walk->held + walk->added;
	bool is_right =
		outside == 0 || (count >= DEEP_LEAST_FRAMES && count + outside > TRACE_FRAMES_MAX);
	return is_right && drop_of(walk) < walk->held;
}

/*
 * Returns true if the caller keeps the frames in `walk`: the walk met kept frames whose edge stays,
 * or the end of the stack, or as many frames as there is room for. Otherwise the next walk begins
 * with no kept frame.
 */
static inline bool deep_walk(const struct abi_snapshot *snapshot, struct abi_deep *area,
	struct stack *stack, struct step_state state, struct trace_walk *walk)
{
	struct trace *trace = (struct trace *)area->walk;
	struct step_state *fresh = (struct step_state *)area->fresh;
	bool has_met = walk_fresh(stack->config, snapshot, stack, trace, state, fresh, walk);
	if (has_met && walk->held > 0 && edge_stays(walk, load_relaxed(&trace->outside)))
		return true;
	bool is_full = !has_met && walk->added == TRACE_FRESH_MAX;
	if (is_full)
		walk->held = 0;
	store_release(&trace->count, 0);
	trace->outside = is_full ? OUTSIDE_UNKNOWN : 0;
	return walk->held == 0 && (has_met || is_full);
}

/* Keeps the stack that a walk found. */
static inline uint32_t deep_keep(const struct abi_snapshot *snapshot, struct abi_slot *slot,
	struct abi_deep *area, const struct stack *stack, uint64_t sp, struct trace_walk *walk)
{
	struct trace *trace = (struct trace *)area->walk;
	uint64_t drop = drop_of(walk);
	if (!config_alive(stack->config))
		return 0;
	/* A handler that jumps out of here leaves an empty trace. */
	store_release(&trace->count, 0);
	if (drop > 0) {
		frames_drop(trace, snapshot, drop, walk->held);
		walk->held -= drop;
		trace->outside += drop;
	}
	return trace_keep(stack->config, snapshot, slot, trace,
		(const struct step_state *)area->fresh, span_from(sp, stack->hi), walk);
}

static HT_NOINLINE uint32_t stack_in(const struct abi_config *config, struct abi_slot *slot,
	struct abi_deep *area, uint64_t pc, uint64_t sp, uint64_t fp)
{
	const struct step_state state = {.pc = pc, .sp = sp, .fp = fp};
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	const struct trace *trace = (const struct trace *)area->walk;
	struct trace_walk walk = {0};
	struct stack stack;

	stack_init(&stack, config, slot);
	stack.direct_only = true;
	if (!snapshot || !stack_open_primary(&stack, sp) ||
		stack.hi - sp > TRACE_STACK_WORDS_MAX * sizeof(uint64_t))
		return 0;
	walk.held = kept_count(trace, slot, snapshot, stack.hi);
	if (!deep_walk(snapshot, area, &stack, state, &walk)) {
		if (walk.held == 0)
			deep_end(config, slot);
		return 0;
	}
	uint32_t id = (uint32_t)load_relaxed(&trace->id);
	if (walk.added != 0 || walk.held != load_relaxed(&trace->count) || id == 0)
		id = deep_keep(snapshot, slot, area, &stack, sp, &walk);
	if (id != 0 && load_relaxed(&trace->outside) != 0)
		count_add(&slot->head.trunc[ABI_TRUNC_DEPTH], 1);
	if (walk.held + walk.added < DEEP_END_FRAMES)
		deep_end(config, slot);
	return id;
}

uint32_t deep_stack(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp)
{
	struct abi_deep *area = area_of(config, slot);
	if (!area) {
		deep_end(config, slot);
		return 0;
	}
	struct trace *trace = (struct trace *)area->walk;
	if (load_relaxed(&trace->outside) == OUTSIDE_UNKNOWN && load_relaxed(&trace->count) != 0)
		outside_count(config, slot, trace, sp);
	return stack_in(config, slot, area, pc, sp, fp);
}
