/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/trace.h"

#include "agent/deep.h"
#include "agent/follow.h"
#include "agent/memo.h"

/* trace_stack with the kept frames; 0: this stack cannot be kept. */
static inline uint32_t stack_traced(const struct abi_config *config,
	const struct abi_snapshot *snapshot, struct abi_slot *slot, struct step_state state)
{
	struct trace *trace = (struct trace *)slot->walk;
	struct step_state *fresh = (struct step_state *)slot->frames;
	uint64_t sp = state.sp;
	struct trace_walk walk = {0};
	struct stack stack;

	stack_init(&stack, config, slot);
	stack.direct_only = true;
	if (!stack_open_primary(&stack, state.sp) ||
		stack.hi - state.sp > TRACE_STACK_WORDS_MAX * sizeof(uint64_t))
		return 0;
	walk.held = kept_count(trace, slot, snapshot, stack.hi);
	bool is_whole = walk_fresh(config, snapshot, &stack, trace, state, fresh, &walk);
	if (!is_whole || walk.held + walk.added > config->frames_max) {
		store_release(&trace->count, 0);
		if (is_whole || walk.added == TRACE_FRESH_MAX)
			deep_begin(config, slot);
		return 0;
	}
	if (walk.added == 0 && walk.held == load_relaxed(&trace->count) && trace->id != 0)
		return (uint32_t)trace->id;
	struct trace_span span = span_from(sp, stack.hi);
	uint32_t id = trace_keep(config, snapshot, slot, trace, fresh, span, &walk);
	if (trace->id != 0 && config_alive(config))
		memo_note(slot, walk.held, walk.held + walk.added, span);
	else if (walk.held + walk.added > load_relaxed(&trace->count))
		deep_begin(config, slot);
	return id;
}

uint32_t trace_stack_late(struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi)
{
	const struct trace *trace = (const struct trace *)slot->walk;
	struct memo_found found = memo_find(slot, pc, sp, fp, hi);
	bool is_same = ht_likely(found.id != 0) &&
		       ht_likely(kept_links_held(trace, kept_links(trace, found.outer),
					 span_from(sp, hi)) == 0);
	return is_same ? found.id : 0;
}

uint32_t trace_stack_changed(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp)
{
	const struct step_state state = {.pc = pc, .sp = sp, .fp = fp};
	if (config->flags & ABI_FLAG_FULL_UNWIND)
		return 0;
	if (ht_unlikely(load_relaxed(&((const struct trace *)slot->walk)->deep) != 0))
		return deep_stack(config, slot, pc, sp, fp);
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	return snapshot ? stack_traced(config, snapshot, slot, state) : 0;
}

uint32_t trace_stack_plain(const struct abi_config *config, struct abi_slot *slot, uint64_t pc,
	uint64_t sp, uint64_t fp)
{
	const struct walk_start start = {.pc = pc, .sp = sp, .fp = fp};
	const struct abi_snapshot *snapshot = rules_snapshot(config);
	uint32_t count = walk_plain(config, snapshot, slot, &start);
	bool cut;
	uint32_t id = intern_stack(config, snapshot ? snapshot->epoch : 0, slot->frames,
		walk_functions(config, slot, count), count, &cut);
	if (ht_unlikely(cut))
		count_add(&slot->head.trunc[ABI_TRUNC_NODES], 1);
	return id;
}
