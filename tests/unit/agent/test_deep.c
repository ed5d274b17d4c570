/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that do not fit a slot. Up to ABI_FRAMES_MAX frames the agent records what the plain walk
 * records; of deeper stacks it records the innermost frames. The work of an event does not grow
 * with the stack.
 */
#define TRACE_DEEP
#define SIM_STACK_WORDS (1u << 20)
#define SIM_DEPTH_MAX	60000u

#include "agent/trace.h"

#include "agent/deep.h"
#include "agent/intern.h"
#include "agent/kept.h"
#include "agent/rules.h"
#include "tests/unit/agent/simulate.h"

#define SLOT_ROOM   640u /* frames, more than a slot has room for */
#define FRESH_MARK  0x6d61726bu
#define PLAIN_SLOT  15u
#define PLAIN_RULES (1u << ABI_RULE_RSP)
#define FP_RULES    (1u << ABI_RULE_RSP | 1u << ABI_RULE_RBP)
#define ALL_RULES   UINT32_MAX

static uint64_t expected[SIM_DEPTH_MAX + 1];
static struct walk_start start;

static struct abi_deep *area(uint64_t i)
{
	return (struct abi_deep *)(world_image + ABI_DEEP_OFF) + i;
}

static uint64_t areas_used(void)
{
	uint64_t used = 0;
	for (uint64_t i = 0; i < ABI_DEEP_COUNT; i++)
		used += world_control->deep_owner[i] != 0;
	return used;
}

/* Makes functions with small frames, whose rules are of these kinds (one bit for each enum
 * abi_rule_kind). */
static void make(uint64_t seed, uint32_t kinds)
{
	sim_make(seed);
	world_config->frames_max = ABI_FRAMES_MAX;
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++) {
		while (!(kinds >> abi_rule_kind(sim_table->rule[i]) & 1) ||
			(abi_rule_kind(sim_table->rule[i]) == ABI_RULE_RSP &&
				abi_rule_offset(sim_table->rule[i]) > 5))
			sim_table->rule[i] = sim_rule_random();
	}
	sim_slot();
}

static void become_thread(uint32_t i)
{
	struct abi_slot *slot = &world_slots[i];
	slot->head.key = 0x10000 + 0x1000 * i;
	slot->head.stack_lo = (uint64_t)sim_stack;
	slot->head.stack_hi = (uint64_t)(sim_stack + SIM_STACK_WORDS);
	slot->head.bounds_incarnation = slot->head.incarnation;
}

static uint32_t traced_in(uint32_t i)
{
	return trace_stack(world_config, &world_slots[i], start);
}

static uint32_t traced(void)
{
	return traced_in(0);
}

static uint64_t cut_count(void)
{
	return world_slots[0].head.trunc[ABI_TRUNC_DEPTH];
}

static uint32_t plain(void)
{
	struct abi_slot *slot = &world_slots[PLAIN_SLOT];
	const struct abi_snapshot *snapshot = rules_snapshot(world_config);
	bool cut;
	become_thread(PLAIN_SLOT);
	slot->head.key = world_slots[0].head.key;
	uint32_t count = walk_plain(world_config, snapshot, slot, &start);
	slot->head.key = 0;
	return intern_stack(world_config, snapshot->epoch, slot->frames, NULL, count, &cut);
}

static uint32_t function_random(void)
{
	return SIM_FIRST + (uint32_t)sim_random(SIM_FUNCTIONS - SIM_FIRST);
}

static void go_to(uint32_t depth)
{
	while (sim_depth > depth)
		sim_return();
	bool has_room = true;
	while (sim_depth < depth && has_room) {
		uint32_t before = sim_depth;
		sim_call(function_random());
		has_room = sim_depth > before;
	}
	ck_assert(has_room);
}

static void check_same(void)
{
	uint64_t cut = cut_count();
	sim_hook(&start, expected);
	ck_assert_uint_eq(traced(), plain());
	ck_assert_uint_eq(cut_count(), cut);
}

/* Checks that the frames of node `id` are the innermost of `expected`, and returns how many they
 * are. */
static uint32_t check_innermost(uint32_t id)
{
	uint32_t count = 0, wrong = 0;
	for (; id != 0 && wrong == 0; count++) {
		const struct abi_node *node = &world_nodes[id];
		uint64_t pc = expected[count] & ~(STEP_EXACT | STEP_INTERPRETED);
		wrong += node->pc != pc || node->flags != sim_flags(expected[count]) ||
			 node->parent >= id;
		id = node->parent;
	}
	ck_assert_uint_eq(wrong, 0);
	return count;
}

static void check_cut(void)
{
	uint64_t cut = cut_count();
	uint32_t depth = sim_hook(&start, expected);
	uint32_t count = check_innermost(traced());
	ck_assert_uint_le(count, ABI_FRAMES_MAX);
	ck_assert_uint_ge(count, DEEP_LEAST_FRAMES);
	ck_assert_uint_lt(count, depth);
	ck_assert_uint_eq(cut_count(), cut + 1);
}

HT_TEST(stacks_up_to_the_limit_are_exact)
{
	static const uint32_t kinds[] = {PLAIN_RULES, FP_RULES, ALL_RULES};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(kinds); i++) {
		make(i + 1, kinds[i]);
		for (unsigned event = 0; event < 60; event++) {
			const uint32_t around[] = {1000, 5000, 9000, ABI_FRAMES_MAX - 25, 200};
			go_to(around[event / 8 % 5] + (uint32_t)sim_random(20));
			check_same();
			if (sim_random(4) == 0)
				check_same();
		}
		go_to(ABI_FRAMES_MAX - 1);
		check_same();
		check_same();
		ck_assert_uint_eq(sim_hook(&start, expected), ABI_FRAMES_MAX);
		ck_assert_uint_eq(check_innermost(traced()), ABI_FRAMES_MAX);
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

/* Words of the kept stack change, return addresses and saved registers among them. */
HT_TEST(overwritten_words)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		make(seed, seed % 2 ? FP_RULES : ALL_RULES);
		go_to(3000);
		sim_signal(function_random());
		go_to(sim_depth + 20);
		check_same();
		check_same();
		for (unsigned event = 0; event < 100; event++) {
			uint64_t words = ((uint64_t)(sim_stack + SIM_STACK_WORDS) - sim_sp) / 8;
			uint64_t *word = sim_word(sim_sp + 8 * sim_random(words)), old = *word;
			const uint64_t values[] = {0, sim_random(UINT64_MAX), old + 8,
				sim_site(function_random()), sim_sp + 8 * sim_random(words)};
			*word = values[sim_random(HT_ARRAY_SIZE(values))];
			sim_hook(&start, expected);
			ck_assert_uint_eq(traced(), plain());
			*word = old;
			if (sim_random(4) == 0)
				check_same();
		}
	}
}

/* Same depth and layout, other callers: what an unverified splice gets wrong. */
HT_TEST(equal_layouts)
{
	make(3, PLAIN_RULES);
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i++)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 4, i % 2 ? 2 : 0);
	for (unsigned event = 0; event < 60; event++) {
		go_to(5000 - (uint32_t)sim_random(event % 2 ? 3 : 4000));
		go_to(5000);
		check_same();
	}
}

/* The stack grows to three times as many frames as there is room for, and shrinks again. */
HT_TEST(more_frames_are_cut_and_counted)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		make(seed, seed == 1 ? PLAIN_RULES : seed == 2 ? FP_RULES : ALL_RULES);
		go_to(ABI_FRAMES_MAX - 1);
		check_same();
		check_same();
		while (sim_depth < 50000) {
			go_to(sim_depth + 1 + (uint32_t)sim_random(400));
			check_cut();
		}
		while (sim_depth >= ABI_FRAMES_MAX + 700) {
			go_to(sim_depth - 1 - (uint32_t)sim_random(700));
			check_cut();
		}
		for (unsigned i = 0; i < 20; i++) {
			go_to(ABI_FRAMES_MAX + 5);
			check_cut();
			check_cut();
			go_to(ABI_FRAMES_MAX - 1 - (uint32_t)sim_random(5));
			check_same();
			check_same();
		}
		go_to(100);
		check_same();
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

/* The stack is deep when the capture begins. */
HT_TEST(deep_from_the_first_event_on)
{
	make(4, FP_RULES);
	go_to(50000);
	for (unsigned i = 0; i < 30; i++) {
		go_to(50000 - 1000 * i);
		check_cut();
	}
	go_to(ABI_FRAMES_MAX - 100);
	check_same();
	check_same();
}

/* Returns how many frames an event walks anew: the walk writes these to its scratch memory. */
static uint32_t frames_walked(void)
{
	struct step_state *fresh = (struct step_state *)area(0)->fresh;
	uint32_t walked = 0;
	for (uint32_t i = 0; i < TRACE_FRESH_MAX; i++)
		fresh[i].pc = FRESH_MARK;
	ck_assert_uint_ne(traced(), 0);
	while (walked < TRACE_FRESH_MAX && fresh[walked].pc != FRESH_MARK)
		walked++;
	return walked;
}

/* A recursion allocates at each level: at any depth the agent walks only the two frames that are
 * new, and adds two nodes. */
HT_TEST(an_event_costs_what_is_new)
{
	make(5, PLAIN_RULES);
	sim_table->rule[SIM_FIRST] = abi_rule_make(ABI_RULE_RSP, 4, 0);
	uint64_t nodes = 0, at_edge = 0, more = 0;
	for (uint32_t level = 0; level < 20000; level++) {
		sim_call(SIM_FIRST);
		sim_hook(&start, expected);
		start.pc = SIM_CODE_BASE + SIM_FIRST * ABI_GRANULE_BYTES + 200;
		nodes = world_control->node_count;
		uint32_t walked = level % 97 == 0 ? frames_walked() : 0;
		traced();
		if (level < SLOT_ROOM)
			continue;
		more += walked > 2;
		/* When the edge of the cut moves, once, the frames inside it get other callers. */
		if (world_control->node_count - nodes > 2)
			at_edge++;
	}
	ck_assert_uint_eq(more, 0);
	ck_assert_uint_le(at_edge, 1);
	ck_assert_uint_eq(cut_count() > 0, true);
}

/* Each thread has an area while its stack is deep; threads for which no area is left do without. */
HT_TEST(threads_share_the_areas)
{
	world_make();
	make(6, FP_RULES);
	ck_assert_uint_lt(WORLD_SLOTS - 2, ABI_DEEP_COUNT);
	for (uint64_t i = WORLD_SLOTS - 3; i < ABI_DEEP_COUNT; i++)
		world_control->deep_owner[i] = abi_deep_owner(0, WORLD_SLOTS - 2);
	become_thread(WORLD_SLOTS - 2);
	uint64_t taken = areas_used();
	go_to(2000);
	for (uint32_t i = 0; i < WORLD_SLOTS - 2; i++) {
		if (i > 0)
			become_thread(i);
		for (unsigned event = 0; event < 3; event++) {
			go_to(2000 + event);
			sim_hook(&start, expected);
			ck_assert_uint_eq(check_innermost(traced_in(i)), sim_depth + 1);
		}
		/* The last thread has none. */
		ck_assert_uint_eq(areas_used(), i == WORLD_SLOTS - 3 ? taken + i : taken + i + 1);
	}
	ck_assert_uint_eq(areas_used(), ABI_DEEP_COUNT);
	/* A thread ends: the next thread gets its area. */
	world_slots[3].head.key |= ABI_SLOT_DEAD;
	for (unsigned event = 0; event < 3; event++) {
		go_to(2000 + event);
		sim_hook(&start, expected);
		ck_assert_uint_eq(check_innermost(traced_in(WORLD_SLOTS - 3)), sim_depth + 1);
	}
	uint64_t owner = abi_deep_owner(0, WORLD_SLOTS - 3);
	ck_assert_uint_eq(world_control->deep_owner[3], owner);
	/* A new thread has the slot of one that had an area, and its stack may be as deep. */
	world_slots[4].head.incarnation += 2;
	become_thread(4);
	sim_hook(&start, expected);
	ck_assert_uint_eq(check_innermost(traced_in(4)), sim_depth + 1);
	go_to(10);
	sim_hook(&start, expected);
	ck_assert_uint_eq(check_innermost(traced_in(5)), sim_depth + 1);
	ck_assert_uint_eq(world_control->deep_owner[5], 0);
}

/* The thread leaves its own stack for a coroutine's stack, which is read by copies, and returns. */
HT_TEST(another_stack_in_between)
{
	make(7, FP_RULES);
	go_to(2000);
	check_same();
	check_same();
	sim_hook(&start, expected);
	uint64_t id = traced();
	static uint64_t other[64];
	other[5] = sim_site(SIM_FIRST);
	const struct walk_start before = start;
	start.sp = (uint64_t)other;
	sys_fake.readable = (const uint8_t *)other;
	sys_fake.readable_bytes = sizeof(other);
	ck_assert_uint_ne(traced(), 0);
	ck_assert_uint_gt(sys_fake.calls, 0);
	start = before;
	world_slots[0].head.trunc[ABI_TRUNC_STACK] = 0;
	ck_assert_uint_eq(frames_walked(), 0);
	ck_assert_uint_eq(traced(), id);
}

/* A forked child shares the image with its parent, so it must not change it. */
HT_TEST(a_forked_child_takes_no_area)
{
	make(8, PLAIN_RULES);
	go_to(2000);
	sim_hook(&start, expected);
	world_state->alive = ABI_FORKED;
	deep_begin(world_config, &world_slots[0]);
	ck_assert_uint_eq(areas_used(), 0);
}

/* Another process that shares the memory may write anything there. */
HT_TEST(garbage_in_the_area)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		make(seed, ALL_RULES);
		go_to(1500);
		for (unsigned event = 0; event < 60; event++) {
			struct trace *trace = (struct trace *)area(0)->walk;
			go_to(1500 - (uint32_t)sim_random(300));
			if (event % 20 == 10)
				go_to(17000);
			sim_hook(&start, expected);
			traced();
			traced();
			for (unsigned i = 0; i < 8; i++) {
				uint64_t at =
					trace->count ? sim_random(trace->count % 20000 + 1) : 0;
				const uint64_t values[] = {sim_random(UINT64_MAX),
					sim_random(60000), sim_sp + 8 * sim_random(512),
					(uint64_t)sim_stack + SIM_STACK_BYTES - sim_random(16)};
				uint64_t value = values[sim_random(HT_ARRAY_SIZE(values))];
				at %= TRACE_FRAMES_MAX;
				const struct sys_iovec words[] = {
					{(uint64_t *)trace + sim_random(9), 8},
					{&trace->link_word[at], 8}, {&trace->link_at[at], 4},
					{&trace->link_end[at], 2}, {&trace->flags[at], 1},
					{&((uint64_t *)&trace->frame[at])[sim_random(4)], 8},
					{&((struct trace *)world_slots[0].walk)->deep, 8},
					{&world_control->deep_owner[sim_random(ABI_DEEP_COUNT)],
						8}};
				uint64_t which = sim_random(HT_ARRAY_SIZE(words));
				memcpy(words[which].base, &value, words[which].bytes);
			}
			traced();
		}
	}
}

HT_SUITE("agent/deep")
