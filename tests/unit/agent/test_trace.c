/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk that remembers gives what the plain walk gives, for every event of random programs.
 */
#include "agent/trace.h"

#include <sys/mman.h>

#include "agent/intern.h"
#include "agent/kept.h"
#include "agent/rules.h"
#include "tests/unit/agent/simulate.h"

static uint64_t expected[SIM_DEPTH_MAX + 1];
static struct walk_start start;

/* The slot of the plain walk, beside that of the thread. */
static struct abi_slot *plain_slot(void)
{
	struct abi_slot *slot = &world_slots[1];
	slot->head.stack_lo = world_slots[0].head.stack_lo;
	slot->head.stack_hi = world_slots[0].head.stack_hi;
	slot->head.incarnation = world_slots[0].head.incarnation;
	slot->head.bounds_incarnation = world_slots[0].head.bounds_incarnation;
	return slot;
}

static uint32_t traced(void)
{
	return trace_stack(world_config, &world_slots[0], start);
}

static uint32_t plain(uint32_t *ret_count)
{
	struct abi_slot *slot = plain_slot();
	const struct abi_snapshot *snapshot = rules_snapshot(world_config);
	bool cut;
	*ret_count = walk_plain(world_config, snapshot, slot, &start);
	return intern_stack(world_config, snapshot->epoch, slot->frames, NULL, *ret_count, &cut);
}

static void check_same(void)
{
	uint32_t count;
	uint32_t want = plain(&count);
	ck_assert_uint_eq(traced(), want);
	for (unsigned i = 0; i < ABI_TRUNC_COUNT; i++)
		ck_assert_uint_eq(world_slots[0].head.trunc[i], world_slots[1].head.trunc[i]);
}

static uint32_t function_random(void)
{
	return SIM_FIRST + (uint32_t)sim_random(SIM_FUNCTIONS - SIM_FIRST);
}

/* A few calls and returns, as between two allocations. */
static void run_random(void)
{
	for (uint64_t i = sim_random(6); i > 0; i--) {
		switch (sim_random(sim_depth > 60 ? 12 : 8)) {
		case 0:
			sim_signal(function_random());
			break;
		case 1:
			for (uint64_t k = sim_random(10); k > 0; k--)
				sim_return(); /* an exception, or longjmp */
			break;
		case 2:
		case 3:
		case 4:
		case 5:
			sim_call(function_random());
			break;
		default:
			sim_return();
		}
	}
}

HT_TEST(random_programs)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		sim_make(seed);
		sim_slot();
		for (unsigned event = 0; event < 300; event++) {
			uint32_t found;
			run_random();
			uint32_t count = sim_hook(&start, expected);
			check_same();
			plain(&found);
			ck_assert_uint_eq(found, count);
			for (uint32_t i = 0; i < count; i++)
				ck_assert_uint_eq(world_slots[1].frames[i], expected[i]);
		}
		ck_assert_uint_eq(world_slots[0].head.trunc[ABI_TRUNC_STACK], 0);
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

/* Same depth, same frame sizes, other callers: what an unverified splice gets wrong. */
HT_TEST(equal_layouts)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		sim_make(seed);
		sim_slot();
		for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++)
			sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 4, i % 2 ? 2 : 0);
		for (unsigned event = 0; event < 500; event++) {
			while (sim_depth > 3 + sim_random(3))
				sim_return();
			while (sim_depth < 12)
				sim_call(SIM_FIRST + (uint32_t)sim_random(4));
			sim_hook(&start, expected);
			check_same();
		}
	}
}

/* The stack changes under the kept frames, one word at a time, in every way that matters. */
HT_TEST(overwritten_words)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		sim_make(seed);
		sim_slot();
		for (unsigned i = 0; i < 30; i++) {
			if (sim_random(12) == 0)
				sim_signal(function_random());
			else
				sim_call(function_random());
		}
		sim_hook(&start, expected);
		check_same();
		for (unsigned event = 0; event < 100; event++) {
			uint64_t words = ((uint64_t)(sim_stack + SIM_STACK_WORDS) - sim_sp) / 8;
			uint64_t *word = sim_word(sim_sp + 8 * sim_random(words)), old = *word;
			const uint64_t values[] = {sim_random(UINT64_MAX), 0,
				sim_interpreted_random(), sim_site(function_random()),
				sim_sp + 8 * sim_random(words), old + 8, old - 8,
				sim_site(SIM_TRAMPOLINE),
				(uint64_t)sim_stack + sim_random(SIM_STACK_BYTES + 64)};
			*word = values[sim_random(HT_ARRAY_SIZE(values))];
			check_same();
			if (sim_random(2))
				*word = old;
			if (sim_random(4) == 0)
				check_same();
		}
	}
}

/* The registers of the innermost frame have any values. */
HT_TEST(wild_registers)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		sim_make(seed);
		sim_slot();
		for (unsigned event = 0; event < 50; event++) {
			run_random();
			sim_hook(&start, expected);
			if (sim_random(3) == 0)
				start.fp = sim_random(2) ? sim_random(UINT64_MAX)
							 : sim_sp + sim_random(512);
			if (sim_random(5) == 0)
				start.sp += sim_random(64);
			if (sim_random(10) == 0)
				start.pc = sim_random(UINT64_MAX >> 1);
			check_same();
		}
	}
}

/* Another module takes the place of the old one; its frames are larger, or the same. */
HT_TEST(new_tables)
{
	for (unsigned i = 0; i < 3; i++) {
		sim_make(1);
		sim_slot();
		sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 4, 0);
		for (unsigned k = 0; k < 5; k++)
			sim_call(SIM_FIRST);
		sim_hook(&start, expected);
		check_same();
		uint32_t before = traced();

		sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, i < 2 ? 8 : 4, 0);
		struct abi_snapshot *second = (struct abi_snapshot *)((uint8_t *)sim_snapshot +
								      (i == 1 ? HT_PAGE_BYTES : 0));
		memcpy(second, sim_snapshot, sizeof(*second) + sizeof(second->range[0]));
		second->cache += ABI_CACHE_BYTES;
		second->generation += i != 1; /* another address or another generation is enough */
		second->epoch++;
		world_config->unwind = (uint64_t)second;
		check_same();
		ck_assert_uint_ne(traced(), before);
	}
}

HT_TEST(new_thread_on_the_same_stack)
{
	sim_make(3);
	struct abi_slot *slot = sim_slot();
	for (unsigned i = 0; i < 10; i++)
		sim_call(function_random());
	sim_hook(&start, expected);
	check_same();
	slot->head.incarnation += 2;
	check_same(); /* the bounds are unknown, so the stack is read by copies */
	ck_assert_uint_gt(sys_fake.calls, 0);
	slot->head.bounds_incarnation = slot->head.incarnation;
	sim_return();
	sim_hook(&start, expected);
	check_same();
}

/* The daemon corrects the bounds. A copy of each return address lies where the new bounds would put
 * it. */
HT_TEST(another_end_of_the_same_stack)
{
	sim_make(9);
	struct abi_slot *slot = sim_slot();
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	for (unsigned i = 0; i < 10; i++) {
		sim_call(SIM_FIRST);
		*sim_word(sim_sp + 16) = *sim_word(sim_sp + 24);
	}
	sim_hook(&start, expected);
	check_same();
	slot->head.stack_hi -= 8;
	*sim_word(sim_calls[5].caller_sp - 8) = sim_site(SIM_FIRST + 1);
	check_same();
}

HT_TEST(too_deep_stacks_are_not_kept)
{
	sim_make(4);
	sim_slot();
	world_config->frames_max = 20;
	for (unsigned event = 0; event < 400; event++) {
		run_random();
		sim_hook(&start, expected);
		check_same();
	}
	ck_assert_uint_gt(world_slots[0].head.trunc[ABI_TRUNC_DEPTH], 0);
}

/* Checks the walk while the page cannot be read. */
static void check_same_without(uint64_t page)
{
	ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_NONE), 0);
	check_same();
	check_same();
	ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

/* Two coroutines run in an array of the thread's own stack: what was read of the upper one is gone
 * when the lower one runs. */
HT_TEST(coroutines_in_the_stack_are_not_looked_at)
{
	uint64_t page = (uint64_t)sim_stack + 8 * HT_PAGE_BYTES;
	sim_make(10);
	sim_slot();
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	sim_sp = page + HT_PAGE_BYTES;
	sim_call(SIM_FIRST);
	sim_call(SIM_FIRST);
	sim_hook(&start, expected);
	check_same();
	sim_depth = 0;
	sim_sp = page;
	sim_call(SIM_FIRST);
	sim_hook(&start, expected);
	check_same_without(page);
}

/* Two functions are called from one place. Where the first one has the words that lead out of it,
 * the second one has an array that cannot be read. */
static void check_array(unsigned caller_depth, uint32_t handler)
{
	uint64_t words = HT_PAGE_BYTES / sizeof(uint64_t), before, page;
	sim_make(11);
	sim_slot();
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	/* A large frame of an odd number of words. */
	sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_RSP, 501, 0);
	for (unsigned i = 0; i < caller_depth; i++)
		sim_call(SIM_FIRST);
	if (handler)
		sim_signal(handler);
	before = sim_random_state;
	uint64_t top = sim_sp;
	sim_call(SIM_FIRST + 1);
	for (unsigned i = 0; i < 9; i++)
		sim_call(SIM_FIRST + 1);
	sim_hook(&start, expected);
	check_same();
	while (sim_sp < top)
		sim_return();
	ck_assert_uint_eq(sim_sp, top);
	sim_random_state = before;
	sim_call(SIM_FIRST + 2);
	page = ht_align_down(sim_sp - 2 * HT_PAGE_BYTES, HT_PAGE_BYTES);
	sim_sp = page - words;
	/* The rule that fits the frame which now reaches from `top` to sim_sp. */
	sim_table->rule[SIM_FIRST + 2] =
		abi_rule_make(ABI_RULE_RSP, (int)((top - sim_sp) / sizeof(uint64_t)), 0);
	memset((void *)sim_snapshot->cache, 0, ABI_CACHE_BYTES);
	sim_hook(&start, expected);
	check_same_without(page);
}

HT_TEST(arrays_in_the_place_of_kept_frames_are_not_read)
{
	for (unsigned depth = 1; depth < 6; depth++) {
		check_array(depth, 0);
		check_array(depth, SIM_FIRST);
	}
}

/* The stacks are deeper than a trace has room for: their outer frames are kept. From the fourth
 * seed on each frame has a saved rbp, and there is room for fewer. */
HT_TEST(deep_stacks)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		sim_make(seed);
		sim_slot();
		for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++) {
			const uint32_t rules[] = {abi_rule_make(ABI_RULE_RSP, 4, i % 2 ? 2 : 0),
				abi_rule_make(ABI_RULE_RBP, 2, 2)};
			sim_table->rule[i] = rules[(i % 3 == 0 && seed > 1) || seed > 3];
		}
		for (unsigned event = 0; event < 300; event++) {
			/* Around the room there is, far beyond it, and far below. */
			const uint32_t room = seed > 3 ? TRACE_LINKS_MAX / 2 : TRACE_FRAMES_MAX;
			const uint32_t around[] = {room, room, 1500, 100};
			uint32_t depth = around[event / 8 % 4] - 30 + (uint32_t)sim_random(60);
			for (unsigned i = 0; i < 4; i++)
				sim_return();
			while (sim_depth > depth)
				sim_return();
			while (sim_depth < depth)
				sim_call(function_random());
			sim_hook(&start, expected);
			check_same();
		}
	}
}

/* Changes the tables without a new generation, which no target does: it shows which frames are
 * kept. */
HT_TEST(outer_frames_of_deep_stacks_are_kept)
{
	sim_make(8);
	sim_slot();
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	for (unsigned i = 0; i < 1500; i++)
		sim_call(i < 200 ? SIM_FIRST : SIM_FIRST + 1);
	sim_hook(&start, expected);
	check_same();
	uint32_t id = traced(), count;
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 8, 0);
	memset((void *)sim_snapshot->cache, 0, ABI_CACHE_BYTES);
	ck_assert_uint_ne(plain(&count), id);
	ck_assert_uint_eq(traced(), id);
}

/* The outermost return address is 0, and then another value. */
HT_TEST(end_by_null)
{
	sim_make(5);
	sim_slot();
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 4, 2);
	for (unsigned i = 0; i < 4; i++)
		sim_call(SIM_FIRST);
	uint64_t *last = sim_word(sim_calls[0].caller_sp - 8), site = *last;
	sim_hook(&start, expected);
	for (unsigned i = 0; i < 4; i++) {
		*last = i % 2 ? site : 0;
		check_same();
		check_same();
	}
}

/* The outermost return address is 0, and where its frame begins is read from a word of the stack.
 */
HT_TEST(end_by_null_in_a_realigned_frame)
{
	sim_make(6);
	sim_slot();
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	sim_table->rule[SIM_FIRST + 1] = abi_rule_make(ABI_RULE_DRAP, -1, 0);
	sim_call(SIM_FIRST);
	sim_call(SIM_FIRST + 1);
	uint64_t *cfa = sim_word(sim_fp - 8);
	*sim_word(*cfa - 8) = 0;
	sim_call(SIM_FIRST);
	sim_hook(&start, expected);
	check_same();
	*cfa += 8 * 4; /* to the return address of its caller */
	check_same();
}

/* Node `id` is the innermost of these frames, and each has the next as its caller. */
static void check_nodes(uint32_t id, const uint64_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct abi_node *node = &world_nodes[id];
		ck_assert_uint_eq(node->ready, 1);
		ck_assert_uint_eq(node->epoch, sim_snapshot->epoch);
		ck_assert_uint_eq(node->pc, frames[i] & ~(STEP_EXACT | STEP_INTERPRETED));
		ck_assert_uint_eq(node->flags, sim_flags(frames[i]));
		ck_assert_uint_lt(node->parent, id);
		id = node->parent;
	}
	ck_assert_uint_eq(id, 0);
}

/* Without check_same, whose plain walk would add the nodes first. */
HT_TEST(new_stacks_become_nodes)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		sim_make(seed);
		sim_slot();
		for (unsigned event = 0; event < 300; event++) {
			run_random();
			uint32_t count = sim_hook(&start, expected);
			check_nodes(traced(), expected, count);
		}
	}
}

HT_TEST(full_node_array)
{
	sim_make(6);
	sim_slot();
	world_config->node_max = 10;
	for (unsigned i = 0; i < 15; i++)
		sim_call(function_random());
	uint32_t count = sim_hook(&start, expected);
	uint32_t id = traced();
	check_nodes(id, expected + count - 9, 9);
	ck_assert_uint_eq(traced(), id);
	ck_assert_uint_eq(world_slots[0].head.trunc[ABI_TRUNC_NODES], 2);
}

/* Overwrites one field of the kept stack (agent/kept.h): of its head, or of its 40 outermost frames
 * or first 40 links. */
static void scribble(struct trace *trace, uint64_t value)
{
	uint64_t i = sim_random(40), *head = (uint64_t *)trace, *frames = (uint64_t *)trace->frame;
	const struct sys_iovec words[] = {{&head[i % (offsetof(struct trace, link_word) / 8)], 8},
		{&trace->link_word[i], 8}, {&trace->link_at[i], 4}, {&trace->link_end[i], 2},
		{&trace->flags[i], 1}, {&frames[sim_random(160)], 8},
		{&frames[sim_random(160)], 8}};
	uint64_t which = sim_random(HT_ARRAY_SIZE(words));
	memcpy(words[which].base, &value, words[which].bytes);
}

/* Another process that shares the memory may write anything into the kept frames. */
HT_TEST(garbage_in_the_trace)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		sim_make(seed);
		struct abi_slot *slot = sim_slot();
		for (unsigned event = 0; event < 30; event++) {
			run_random();
			sim_hook(&start, expected);
			traced();
			for (unsigned i = 0; i < 8; i++) {
				const uint64_t values[] = {sim_random(UINT64_MAX), sim_random(2000),
					sim_sp + sim_random(4096), sim_sp + 8 * sim_random(512),
					(uint64_t)sim_stack + SIM_STACK_BYTES - sim_random(16),
					(uint64_t)sim_stack + SIM_STACK_BYTES + 8 * sim_random(64)};
				scribble((struct trace *)slot->walk,
					values[sim_random(HT_ARRAY_SIZE(values))]);
			}
			traced();
		}
	}
}

HT_TEST(oracle_flag)
{
	sim_make(7);
	sim_slot();
	world_config->flags = ABI_FLAG_FULL_UNWIND;
	for (unsigned event = 0; event < 50; event++) {
		run_random();
		sim_hook(&start, expected);
		check_same();
	}
	for (size_t i = 0; i < 64; i++)
		ck_assert_uint_eq(world_slots[0].walk[i], 0);
}

/* Arbitrary saved frame positions never lead a step outside the stack. */
HT_TEST(garbage_where_steps_are_made_again)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		sim_make(seed);
		struct trace *trace = (struct trace *)sim_slot()->walk;
		for (unsigned i = 0; i < 30; i++)
			sim_call(SIM_FIRST + i % 2);
		sim_hook(&start, expected);
		traced();
		for (uint64_t i = 1; i + 1 < trace->count; i++) {
			trace->link_at[trace->link_end[i - 1]] = 0;
			trace->flags[i] |= STEP_SPECIAL;
			trace->frame[i].sp += seed % 2 ? 1ull << 40 : -(1ull << 40);
		}
		check_same();
	}
}

/* The agent reads a frame's interpreted function only from the stack, never through kept frames. */
HT_TEST(garbage_in_the_kept_frames)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		sim_make(seed);
		struct abi_slot *slot = sim_slot();
		struct trace *trace = (struct trace *)slot->walk;
		world_config->functions = (uint64_t)(world_image + ABI_FUNCTIONS_OFF);
		world_config->function_words = -2;
		for (unsigned i = 0; i < 30; i++)
			sim_call(function_random());
		sim_hook(&start, expected);
		traced();
		for (unsigned i = 0; i < 20; i++) {
			trace->frame[i].sp = 8;
			trace->frame[i].fp = 0x1010;
		}
		/* New hashes, so that all frames seem to be new. */
		for (unsigned i = 0; i < 100; i++)
			trace->frame[i].hash = sim_random(UINT64_MAX);
		sim_call(function_random());
		sim_hook(&start, expected);
		traced();
	}
}

/* function_words 1 is the word of the return address, which is also the PC of the caller's node. */
HT_TEST(notes_the_interpreted_function)
{
	uint64_t noted = 0;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		sim_make(seed);
		sim_slot();
		const uint64_t *functions = (const uint64_t *)(world_image + ABI_FUNCTIONS_OFF);
		world_config->functions = (uint64_t)functions;
		world_config->function_words = 1;
		if (seed % 2)
			world_config->flags = ABI_FLAG_FULL_UNWIND;
		for (unsigned i = 0; i < 30; i++)
			sim_call(function_random());
		sim_hook(&start, expected);
		ck_assert_uint_ne(traced(), 0);
		for (uint64_t id = 2; id <= world_control->node_count; id++) {
			const struct abi_node *node = &world_nodes[id];
			const struct abi_node *outer = &world_nodes[node->parent];
			uint32_t rule = rules_find(world_config, sim_snapshot, node->pc - 1);
			bool says = node->flags & ABI_NODE_INTERPRETED ||
				    abi_rule_kind(rule) == ABI_RULE_FRAME;
			if (!(outer->flags & ABI_NODE_INTERPRETED))
				ck_assert_uint_eq(functions[id], says ? outer->pc : 0);
			noted += says;
		}
	}
	ck_assert_uint_gt(noted, 100);
}

HT_SUITE("agent/trace")
