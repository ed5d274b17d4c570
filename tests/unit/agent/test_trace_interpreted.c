/* SPDX-License-Identifier: Apache-2.0
 *
 * The node of an interpreter's frame is the interpreted function, both in the walk that reuses the
 * last stack and in the plain one. Other tests of both walks have random programs with such frames.
 */
#include "agent/intern.h"
#include "agent/rules.h"
#include "agent/trace.h"
#include "tests/unit/agent/simulate.h"

static uint64_t expected[SIM_DEPTH_MAX + 1];
static struct walk_start start;

static uint32_t traced(void)
{
	return trace_stack(world_config, &world_slots[0], start);
}

static uint32_t plain(void)
{
	struct abi_slot *slot = &world_slots[1];
	const struct abi_snapshot *snapshot = rules_snapshot(world_config);
	bool cut;
	slot->head.stack_lo = world_slots[0].head.stack_lo;
	slot->head.stack_hi = world_slots[0].head.stack_hi;
	uint32_t count = walk_plain(world_config, snapshot, slot, &start);
	return intern_stack(world_config, snapshot->epoch, slot->frames, NULL, count, &cut);
}

/* Node `id` is the innermost of these frames. */
static void check_nodes(uint32_t id, const uint64_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, id = world_nodes[id].parent) {
		ck_assert_uint_eq(world_nodes[id].pc, frames[i] & ~(STEP_EXACT | STEP_INTERPRETED));
		ck_assert_uint_eq(world_nodes[id].flags, sim_flags(frames[i]));
	}
	ck_assert_uint_eq(id, 0);
}

/* Makes `depth` frames of an interpreter, each of which calls compiled code. */
static void call_interpreted(unsigned depth)
{
	sim_make(12);
	sim_slot();
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_FRAME, SIM_INTERPRETED, 0);
	sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	for (unsigned i = 0; i < depth; i++) {
		sim_call(SIM_FIRST);
		while (sim_fp + 8 * (uint64_t)SIM_INTERPRETED < sim_sp) {
			sim_return();
			sim_call(SIM_FIRST);
		}
		sim_call(SIM_FIRST + 1);
	}
}

/* Calls a hook, always from the same PC. Returns the number of frames in `expected`. */
static uint32_t hook(void)
{
	uint32_t count = sim_hook(&start, expected);
	start.pc = expected[0] = SIM_CODE_BASE + (SIM_FIRST + 1) * ABI_GRANULE_BYTES + 1;
	return count;
}

/* The same frames, but one of them names another function, or has a word that cannot name one. */
HT_TEST(interpreted_function_is_the_frame)
{
	const uint64_t words[] = {
		0x7f0000000001, 0x7f0000001001, 0x7f0000000001, 4, 0x7f0000001001, 5};
	uint32_t ids[HT_ARRAY_SIZE(words)];
	for (unsigned depth = 1; depth <= 12; depth++) {
		call_interpreted(depth);
		const struct sim_call *call = &sim_calls[2 * sim_random(depth) + 1];
		uint64_t *word = sim_word(call->caller_fp + 8 * (uint64_t)SIM_INTERPRETED);
		for (unsigned round = 0; round < 3; round++)
			for (unsigned i = 0; i < HT_ARRAY_SIZE(words); i++) {
				*word = words[i];
				uint32_t count = hook();
				ids[i] = traced();
				ck_assert_uint_eq(plain(), ids[i]);
				ck_assert_uint_eq(traced(), ids[i]);
				check_nodes(ids[i], expected, count);
			}
		ck_assert_uint_eq(ids[0], ids[2]);
		ck_assert_uint_eq(ids[1], ids[4]);
		ck_assert_uint_eq(ids[3], ids[5]);
		ck_assert_uint_ne(ids[0], ids[1]);
		ck_assert_uint_ne(ids[0], ids[3]);
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

/* Words that are no pointers, or pointers to addresses at which no object can be. */
HT_TEST(rejects_impossible_pointers)
{
	const uint64_t words[] = {0, 1, 9, HT_PAGE_BYTES, 0x7f0000000000, 0x7f0000000002,
		0x7f0000000005, 1ull << 47 | 1, UINT64_MAX, STEP_EXACT | 0x1001};
	call_interpreted(3);
	uint64_t *word = sim_word(sim_calls[3].caller_fp + 8 * (uint64_t)SIM_INTERPRETED);
	for (size_t i = 0; i < HT_ARRAY_SIZE(words); i++) {
		*word = words[i];
		hook();
		uint32_t id = traced();
		ck_assert_uint_eq(plain(), id);
		/* The hook's caller is the compiled code within the third. */
		for (unsigned k = 0; k < 3; k++)
			id = world_nodes[id].parent;
		ck_assert_uint_eq(world_nodes[id].pc, sim_calls[3].caller_pc);
		ck_assert_uint_eq(world_nodes[id].flags, 0);
	}
}

/* In another generation functions may have moved, so the same word is another frame. In other
 * threads, or without a snapshot, it is no frame. */
HT_TEST(generations_and_threads)
{
	call_interpreted(3);
	const uint64_t thread = sys_fake_thread_pointer & ~15ull;
	const struct {
		uint16_t scripts;
		uint64_t thread;
		unsigned place; /* index into abi_snapshot.scripts */
	} snapshots[] = {{SIM_SCRIPTS, thread, 0}, {SIM_SCRIPTS + 1, thread, 0}, {0, thread, 0},
		{SIM_SCRIPTS, thread + 16, 0}, {ABI_SCRIPTS_MAX, thread, 0},
		{SIM_SCRIPTS, thread, ABI_SCRIPTS_THREADS - 1}, {SIM_SCRIPTS + 1, thread, 3}};
	uint32_t ids[HT_ARRAY_SIZE(snapshots)];
	const struct sim_call *call = &sim_calls[3];
	*sim_word(call->caller_fp + 8 * (uint64_t)SIM_INTERPRETED) = 0x7f0000000001;
	for (size_t i = 0; i < HT_ARRAY_SIZE(snapshots); i++) {
		bool says = snapshots[i].scripts && snapshots[i].thread == thread;
		sim_snapshot->generation++;
		/* All other entries are of other threads. */
		for (unsigned k = 0; k < ABI_SCRIPTS_THREADS; k++)
			sim_snapshot->scripts[k] =
				abi_scripts_of(thread + 64 + 16 * k, (uint16_t)(100 + k));
		sim_snapshot->scripts[snapshots[i].place] =
			abi_scripts_of(snapshots[i].thread, snapshots[i].scripts);
		hook();
		uint32_t id = ids[i] = traced();
		ck_assert_uint_eq(plain(), id);
		ck_assert_uint_eq(traced(), id);
		for (unsigned k = 0; k < 3; k++)
			id = world_nodes[id].parent;
		ck_assert_uint_eq(
			world_nodes[id].flags, says ? ABI_NODE_EXACT | ABI_NODE_INTERPRETED : 0);
		ck_assert_uint_eq(world_nodes[id].pc,
			says ? 0x7f0000000000 | (uint64_t)snapshots[i].scripts << ABI_SCRIPTS_SHIFT
			     : call->caller_pc);
	}
	ck_assert_uint_eq(ids[0], ids[5]);
	ck_assert_uint_eq(ids[1], ids[6]);
	ck_assert_uint_eq(ids[2], ids[3]);
	ck_assert(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2] && ids[0] != ids[4]);
}

/* More interpreted frames than a trace has room for. */
HT_TEST(deep_stacks)
{
	for (unsigned depth = 100; depth < 1000; depth += 100) {
		call_interpreted(depth);
		for (unsigned i = 0; i < 60; i++) {
			const struct sim_call *call = &sim_calls[2 * sim_random(depth) + 1];
			*sim_word(call->caller_fp + 8 * (uint64_t)SIM_INTERPRETED) =
				sim_interpreted_random();
			uint32_t count = hook();
			check_nodes(traced(), expected, count);
			ck_assert_uint_eq(plain(), traced());
		}
	}
}

HT_SUITE("agent/trace_interpreted")
