/* SPDX-License-Identifier: Apache-2.0
 *
 * The memo knows stacks that come in turn, and no others: whatever has changed meanwhile, the
 * result is that of the plain walk.
 */
#include "agent/memo.h"

#include <pthread.h>
#include <sys/mman.h>

#include "agent/intern.h"
#include "agent/rules.h"
#include "agent/trace.h"
#include "tests/unit/agent/simulate.h"

#define BASE_DEPTH 20u
#define WAYS	   40u

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
	slot->head.incarnation = world_slots[0].head.incarnation;
	slot->head.bounds_incarnation = world_slots[0].head.bounds_incarnation;
	uint32_t count = walk_plain(world_config, snapshot, slot, &start);
	return intern_stack(world_config, snapshot->epoch, slot->frames, NULL, count, &cut);
}

static void check_same(void)
{
	uint32_t want = plain();
	ck_assert_uint_eq(traced(), want);
}

/* A slot that has met no stack yet, and a thread that is some calls deep. */
static void make(uint64_t seed)
{
	sim_make(seed);
	sim_slot();
	memset(world_slots[0].walk, 0, sizeof(world_slots[0].walk));
	memset(world_slots[0].memo, 0, sizeof(world_slots[0].memo));
}

static uint32_t function_random(void)
{
	return SIM_FIRST + (uint32_t)sim_random(SIM_FUNCTIONS - SIM_FIRST);
}

static void descend(void)
{
	while (sim_depth < BASE_DEPTH)
		sim_call(function_random());
}

/* Goes back to BASE_DEPTH, makes a few calls that depend on `way` alone, and calls a hook. */
static void go(uint64_t way)
{
	uint64_t ignored[SIM_DEPTH_MAX + 1], before = sim_random_state;
	while (sim_depth > BASE_DEPTH)
		sim_return();
	sim_random_state = (way + 1) * 0x9e3779b97f4a7c15ull;
	for (uint64_t i = 1 + sim_random(6); i > 0; i--)
		sim_call(function_random());
	sim_hook(&start, ignored);
	sim_random_state = before;
}

/* Changes the tables without a new generation, which no target does: a stack that the memo knows
 * keeps its ID, any other stack gets a new one. */
static void set_words(uint32_t first, uint32_t last, int words)
{
	for (uint32_t i = first; i <= last; i++)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, words, 0);
	memset((void *)sim_snapshot->cache, 0, ABI_CACHE_BYTES);
}

static void set_all_words(int words)
{
	set_words(SIM_FIRST, SIM_FUNCTIONS - 1, words);
}

static void make_plain(void)
{
	make(1);
	set_all_words(4);
	descend();
}

HT_TEST(ways_in_turn)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		make(seed);
		descend();
		for (unsigned event = 0; event < 600; event++) {
			go(sim_random(WAYS));
			check_same();
		}
	}
}

/* Words of the stack, return addresses among them, change and change back. */
HT_TEST(ways_with_other_words)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		make(seed);
		descend();
		uint64_t base = sim_sp;
		for (unsigned event = 0; event < 400; event++) {
			go(sim_random(8));
			uint64_t words = (base - sim_sp) / 8 + 64;
			uint64_t *word = sim_word(sim_sp + 8 * sim_random(words)), old = *word;
			const uint64_t values[] = {sim_random(UINT64_MAX), 0, old + 8,
				sim_site(function_random()), sim_sp + 8 * sim_random(words)};
			if (event % 2)
				*word = values[sim_random(HT_ARRAY_SIZE(values))];
			if (event % 8 == 0)
				start.fp = sim_sp + 8 * sim_random(words);
			if (event % 16 == 2)
				start.pc = sim_site(function_random());
			if (event % 32 == 5)
				start.sp += 1 + sim_random(7);
			check_same();
			*word = old;
		}
	}
}

HT_TEST(a_stack_of_late_is_not_walked_again)
{
	uint32_t id[3];
	make_plain();
	for (uint64_t event = 0; event < 60; event++) {
		uint64_t way = event % 3;
		go(way);
		if (event < 30) {
			id[way] = traced();
		} else {
			set_all_words(8);
			ck_assert_uint_ne(plain(), id[way]);
			ck_assert_uint_eq(traced(), id[way]);
			set_all_words(4);
		}
	}
}

/* Goes back to BASE_DEPTH, calls the given functions, each from the one before, and then a hook. */
static void go_by(const uint32_t *functions, unsigned count)
{
	uint64_t ignored[SIM_DEPTH_MAX + 1], before = sim_random_state;
	while (sim_depth > BASE_DEPTH)
		sim_return();
	sim_random_state = 12345;
	for (unsigned i = 0; i < count; i++)
		sim_call(functions[i]);
	sim_random_state = 54321;
	sim_hook(&start, ignored);
	sim_random_state = before;
}

/* Stacks that come in turn, with frames of `words` words, are recognised without a step. */
static void check_known(
	uint32_t ways[][24], unsigned count, unsigned length, int words, uint32_t leaves)
{
	uint32_t id[8];
	make(1);
	set_words(SIM_FIRST, SIM_FIRST + leaves - 1, 4);
	set_words(SIM_FIRST + leaves, SIM_FUNCTIONS - 1, words);
	descend();
	for (unsigned event = 0; event < 12 * count; event++) {
		unsigned way = event % count;
		go_by(ways[way], length);
		if (event < 6 * count) {
			id[way] = traced();
			ck_assert_uint_eq(id[way], plain());
		} else {
			set_all_words(words + 4);
			ck_assert_uint_ne(plain(), id[way]);
			ck_assert_uint_eq(traced(), id[way]);
			set_words(SIM_FIRST, SIM_FIRST + leaves - 1, 4);
			set_words(SIM_FIRST + leaves, SIM_FUNCTIONS - 1, words);
		}
	}
}

enum { WAYS_LEAF = SIM_FIRST, WAYS_FIRST };

/* Four stacks that differ in one function, the one at place `at` from the outermost. */
static void check_ways(unsigned length, unsigned at, int words)
{
	uint32_t ways[4][24];
	for (unsigned way = 0; way < 4; way++) {
		for (unsigned i = 0; i < length; i++)
			ways[way][i] = WAYS_FIRST + (i == at ? way : 5);
		ways[way][length] = WAYS_LEAF;
	}
	check_known(ways, 4, length + 1, words, 1);
}

/* Some of these stacks have the same place in the memo. */
HT_TEST(many_stacks_of_one_place_are_known)
{
	enum { STACKS = 64 };
	uint32_t id[STACKS] = {0};
	make(1);
	set_all_words(4);
	descend();
	for (unsigned event = 0; event < 8 * STACKS; event++) {
		unsigned way = event * 11 % STACKS;
		const uint32_t functions[] = {WAYS_FIRST + way % 4 * 15,
			WAYS_FIRST + way / 4 % 4 * 12, WAYS_FIRST + way / 16 * 4, WAYS_LEAF};
		go_by(functions, HT_ARRAY_SIZE(functions));
		if (event >= 4 * STACKS) {
			set_all_words(8);
			ck_assert_uint_ne(plain(), id[way]);
			ck_assert_uint_eq(traced(), id[way]);
			set_all_words(4);
			continue;
		}
		id[way] = traced();
		ck_assert_uint_eq(id[way], plain());
	}
}

HT_TEST(ways_of_many_frames)
{
	for (unsigned at = 0; at < 20; at++)
		check_ways(20, at, 4);
}

/* One of four frames of 1.5 KiB, in three pages, differs: the outermost or the innermost. */
HT_TEST(ways_through_several_pages)
{
	check_ways(4, 0, 192);
	check_ways(4, 3, 192);
}

/* A repeated stack becomes the kept stack, which the agent compares first. */
HT_TEST(the_same_stack_again_becomes_the_kept_one)
{
	make_plain();
	go(0);
	uint32_t id = traced();
	go(1);
	traced();
	go(0);
	for (unsigned i = 0; i < 200; i++)
		ck_assert_uint_eq(traced(), id);
	memset(world_slots[0].memo, 0, sizeof(world_slots[0].memo));
	set_all_words(8);
	ck_assert_uint_ne(plain(), id);
	ck_assert_uint_eq(traced(), id);
}

/* Two sequences of outer calls lead, in frames of the same size, to where the inner calls differ.
 */
HT_TEST(outer_frames_in_turn)
{
	make_plain();
	for (unsigned event = 0; event < 2000; event++) {
		uint64_t outer = sim_random(2), before = sim_random_state;
		while (sim_depth > BASE_DEPTH / 2)
			sim_return();
		while (sim_depth < BASE_DEPTH) {
			sim_random_state = 99 + sim_depth + (sim_depth == 12 ? outer : 0);
			sim_call(function_random());
		}
		sim_random_state = before;
		go(sim_random(6));
		check_same();
	}
}

/* Calls, at `depth`, one of two functions whose frames have four words; then the tables say
 * `words`. */
static void call_and_check(uint32_t function, uint32_t depth, int words)
{
	uint64_t ignored[SIM_DEPTH_MAX + 1];
	while (sim_depth > depth)
		sim_return();
	set_words(function, function, 4);
	sim_random_state = 77 + function;
	sim_call(function);
	sim_call(SIM_FIRST);
	sim_hook(&start, ignored);
	set_words(function, function, words);
	check_same();
}

/* After a new generation no known frame counts: neither for the first nor for the second stack,
 * also if only the outermost frame of the stack before is left. */
HT_TEST(nothing_is_known_of_other_tables)
{
	for (uint32_t depth = 1; depth <= 8; depth++) {
		for (uint32_t first = 0; first < 2; first++) {
			make(1);
			set_all_words(4);
			while (sim_depth < depth)
				sim_call(SIM_FIRST);
			for (uint32_t turn = 0; turn < 12; turn++)
				call_and_check(SIM_FIRST + 1 + turn % 2, depth, 4);
			sim_snapshot->generation++;
			for (uint32_t turn = first; turn < 12; turn++)
				call_and_check(SIM_FIRST + 1 + turn % 2, depth, turn % 2 ? 4 : 8);
		}
	}
}

/* Arbitrary memo contents never make the agent read outside the stack. */
HT_TEST(garbage_in_the_memo)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		make(seed);
		descend();
		uint16_t *words = (uint16_t *)world_slots[0].memo;
		for (unsigned event = 0; event < 200; event++) {
			go(sim_random(8));
			traced();
			for (unsigned i = 0; i < 40; i++)
				words[sim_random(ABI_MEMO_BYTES / 2)] =
					(uint16_t)(sim_random(2) ? sim_random(0x10000)
								 : sim_random(40));
			traced();
		}
	}
}

/* A forked child goes on with a walk that its handler interrupted; memo and kept frames are its
 * parent's. */
HT_TEST(a_forked_child_keeps_nothing)
{
	make(1);
	descend();
	for (unsigned way = 0; way < 20; way++) {
		go(way);
		traced();
	}
	const size_t bytes = sizeof(world_slots[0].memo) + sizeof(world_slots[0].walk);
	uint8_t *before = malloc(bytes);
	ck_assert_ptr_nonnull(before);
	memcpy(before, world_slots[0].memo, bytes);
	world_state->alive = 0;
	for (unsigned way = 20; way < 40; way++) {
		go(way);
		traced();
	}
	ck_assert_int_eq(memcmp(before, world_slots[0].memo, bytes), 0);
	free(before);
}

/* The stack of a coroutine is an array in the thread's own stack. No memo of another place may be
 * used for its frames: the page above the array cannot be read. */
HT_TEST(ignores_memos_of_other_places)
{
	uint64_t page = ((uint64_t)sim_stack + 8 * HT_PAGE_BYTES);
	make_plain();
	set_all_words(300);
	while (sim_depth > 0)
		sim_return();
	descend();
	for (uint64_t way = 0; way < 400; way++) {
		go(way);
		traced();
	}
	ck_assert_uint_gt(sim_sp, page + HT_PAGE_BYTES);
	*sim_word(page - 8) = sim_site(SIM_START);
	ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_NONE), 0);
	for (uint64_t i = 0; i < 64; i++) {
		start = (struct walk_start){sim_site(function_random()), page - 300 * 8, 0};
		check_same();
	}
	ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
}

enum { SHORT = SIM_FIRST, LONG, ARRAY, OTHER };

/* The same function is called with the same rsp in two ways: where one stack has a return address,
 * the other has an array that cannot be read. */
HT_TEST(words_in_an_array_are_not_read)
{
	const uint32_t by_two[] = {LONG, LONG, SHORT}, by_one[] = {ARRAY, SHORT}, other[] = {OTHER};
	make(1);
	set_all_words(4);
	while (sim_depth < BASE_DEPTH)
		sim_call(OTHER);
	set_words(LONG, LONG, 600);
	set_words(ARRAY, ARRAY, 1200);
	uint64_t page = ht_align_down(sim_sp - 601 * 8, HT_PAGE_BYTES);
	for (unsigned i = 0; i < 40; i++) {
		go_by(other, 1);
		traced();
		go_by(by_two, 3);
		check_same();
	}
	uint64_t sp = start.sp;
	for (unsigned i = 0; i < 2; i++) {
		go_by(other, 1);
		traced();
		go_by(by_one, 2);
		ck_assert_uint_eq(start.sp, sp);
		ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_NONE), 0);
		check_same();
		ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	}
}

struct scribbler {
	uint16_t place;
	bool stops;
};

static void *scribble(void *arg)
{
	struct scribbler *scribbler = arg;
	volatile uint16_t *words = (volatile uint16_t *)world_slots[0].memo;
	while (!__atomic_load_n(&scribbler->stops, __ATOMIC_RELAXED))
		for (unsigned i = 0; i < ABI_MEMO_BYTES / sizeof(*words); i++)
			words[i] = scribbler->place;
	return NULL;
}

/* A child that shares the memo and was forked inside a hook writes to it while the parent runs. The
 * agent must still not read an array within a frame. */
HT_TEST(rejects_a_concurrently_written_memo)
{
	const uint32_t by_one[] = {ARRAY, SHORT}, other[] = {OTHER};
	struct scribbler scribbler = {0};
	pthread_t thread;
	make(1);
	set_all_words(4);
	while (sim_depth < BASE_DEPTH)
		sim_call(OTHER);
	set_words(ARRAY, ARRAY, 1200);
	uint64_t page = ht_align_down(sim_sp - 601 * 8, HT_PAGE_BYTES);
	go_by(by_one, 2);
	scribbler.place = (uint16_t)((page - start.sp) / 8 + 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, scribble, &scribbler), 0);
	for (unsigned i = 0; i < 60000; i++) {
		go_by(other, 1);
		traced();
		go_by(by_one, 2);
		ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_NONE), 0);
		traced();
		ck_assert_int_eq(mprotect((void *)page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	}
	__atomic_store_n(&scribbler.stops, true, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

HT_SUITE("agent/memo")
