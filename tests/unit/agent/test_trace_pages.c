/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk that remembers reads no page that the plain walk of the same event does not read: what
 * was stack before may be an array that cannot be read now.
 */
#include "agent/trace.h"

#include <signal.h>
#include <sys/mman.h>

#include "agent/rules.h"
#include "tests/unit/agent/simulate.h"

#define PAGES	   (SIM_STACK_BYTES / HT_PAGE_BYTES)
#define PROGRAMS   12u
#define EVENTS	   200u
#define ROOM_BYTES (4u * HT_PAGE_BYTES) /* more than a function's frame and a signal frame */

_Static_assert(PAGES <= 64, "a bit for each page");

static struct walk_start start;
static uint64_t touched;

static uint64_t page_bit(uint64_t address)
{
	return 1ull << (address - (uint64_t)sim_stack) / HT_PAGE_BYTES;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	uint64_t at = (uint64_t)info->si_addr;
	(void)context;
	if (at - (uint64_t)sim_stack >= SIM_STACK_BYTES) {
		signal(number, SIG_DFL);
		return;
	}
	touched |= page_bit(at);
	mprotect((void *)ht_align_down(at, HT_PAGE_BYTES), HT_PAGE_BYTES, PROT_READ);
}

static void protect(int protection)
{
	ck_assert_int_eq(mprotect(sim_stack, SIM_STACK_BYTES, protection), 0);
}

/* Returns the pages of the stack that `walk` reads. */
static uint64_t pages_of(uint32_t (*walk)(void), uint32_t *ret)
{
	touched = 0;
	protect(PROT_NONE);
	*ret = walk();
	protect(PROT_READ | PROT_WRITE);
	return touched;
}

static uint32_t traced(void)
{
	return trace_stack(world_config, &world_slots[0], start);
}

static uint32_t plain(void)
{
	return walk_plain(world_config, rules_snapshot(world_config), &world_slots[0], &start);
}

static uint32_t function_random(void)
{
	return SIM_FIRST + (uint32_t)sim_random(SIM_FUNCTIONS - SIM_FIRST);
}

/* Runs from one allocation to the next, mostly in a few functions, so that stacks come again. */
static void run_random(void)
{
	static uint32_t favourite[4];
	if (sim_random(50) == 0 || !favourite[0])
		for (size_t i = 0; i < HT_ARRAY_SIZE(favourite); i++)
			favourite[i] = function_random();
	for (uint64_t i = sim_random(5); i > 0; i--) {
		bool has_room = sim_sp - (uint64_t)sim_stack > ROOM_BYTES;
		uint64_t what = sim_random(10);
		if (!has_room || what < 4)
			sim_return();
		else if (what == 4)
			sim_signal(function_random());
		else if (what == 5)
			sim_call(function_random());
		else
			sim_call(favourite[sim_random(HT_ARRAY_SIZE(favourite))]);
	}
}

/* Gives every third function a frame of up to two pages, as if it had a large array. */
static void make_frames_large(void)
{
	for (uint32_t i = SIM_FIRST; i < SIM_FUNCTIONS; i += 3)
		sim_table->rule[i] = abi_rule_make(ABI_RULE_RSP, 200 + (int)sim_random(800), 0);
}

static void check_programs(uint64_t first_seed, bool with_functions)
{
	static uint64_t expected[SIM_DEPTH_MAX + 1];
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	uint64_t deep = 0;
	sigaction(SIGSEGV, &action, NULL);
	for (uint64_t seed = first_seed; seed < first_seed + PROGRAMS; seed++) {
		sim_make(seed);
		make_frames_large();
		sim_slot();
		if (with_functions)
			world_config->functions = (uint64_t)(world_image + ABI_FUNCTIONS_OFF);
		world_config->function_words = -2;
		for (unsigned event = 0; event < EVENTS; event++) {
			uint32_t count, id;
			run_random();
			sim_hook(&start, expected);
			/* The hook's return address is in this page. */
			uint64_t loaded = pages_of(plain, &count) | page_bit(start.sp - 8);
			uint64_t looked = pages_of(traced, &id);
			ck_assert_uint_ne(id, 0);
			ck_assert_msg(!(looked & ~loaded),
				"seed %lu, event %u: pages %lx, of which the walk loads %lx",
				(unsigned long)seed, event, (unsigned long)looked,
				(unsigned long)loaded);
			deep += sim_depth > 10;
		}
	}
	ck_assert_uint_gt(deep, EVENTS);
	signal(SIGSEGV, SIG_DFL);
}

HT_TEST(only_pages_that_the_walk_loads)
{
	check_programs(1, false);
}

HT_TEST(where_frames_say_what_they_run)
{
	check_programs(1000, true);
}

HT_SUITE("agent/trace_pages")
