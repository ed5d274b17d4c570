/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of the timeline: their number is bounded, and joining steps keeps the sums.
 */
#include "analyzer/cube/timeline.h"

#include "tests/support/ht_check.h"
#include "tests/support/memory_sample.h"

static struct timeline timeline;

static uint64_t live_bytes;

static void begin(void)
{
	live_bytes = 0;
	timeline_init(&timeline);
}

static void allocate(uint64_t time_ns, uint64_t bytes)
{
	live_bytes += bytes;
	timeline_enter(&timeline, time_ns);
	timeline_add(&timeline, &(struct timeline_step){.allocations = 1,
					.allocated_bytes = bytes,
					.live_bytes = live_bytes,
					.live_max_bytes = live_bytes});
}

static void give_back(uint64_t time_ns, uint64_t bytes)
{
	live_bytes -= bytes;
	timeline_enter(&timeline, time_ns);
	timeline_add(&timeline, &(struct timeline_step){.frees = 1,
					.freed_bytes = bytes,
					.temporary = 1,
					.live_bytes = live_bytes});
}

static void note(enum memory_kind kind, uint64_t time_ns, uint64_t number)
{
	struct memory sample = memory_sample(kind, number);
	timeline_note(&timeline, time_ns, &sample);
}

HT_TEST(events_and_samples_fall_into_steps)
{
	begin();
	allocate(0, 100);
	allocate(999999, 50);
	give_back(3000000, 100);
	note(MEMORY_RSS, 5500000, 4096);
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.count, 6);
	ck_assert_uint_eq(timeline.step[0].allocations, 2);
	ck_assert_uint_eq(timeline.step[0].live_bytes, 150);
	ck_assert_uint_eq(timeline.step[1].live_bytes, 150); /* no event in this step */
	ck_assert_uint_eq(timeline.step[3].live_bytes, 50);
	ck_assert_uint_eq(timeline.step[3].live_max_bytes, 150);
	ck_assert_uint_eq(timeline.step[3].temporary, 1);
	ck_assert_uint_eq(timeline.step[5].live_bytes, 50);
	ck_assert(timeline.memory[5].is_known[MEMORY_RSS]);
	ck_assert(!timeline.memory[5].is_known[MEMORY_SWAP]);
	ck_assert_uint_eq(timeline.memory[5].number[MEMORY_RSS], 4096);
}

HT_TEST(a_long_window_has_wider_steps)
{
	begin();
	for (uint64_t i = 0; i < 100000; i++) {
		allocate(i * 1000000, 10);
		if (i % 1000 == 0)
			note(MEMORY_RSS, i * 1000000, i);
	}
	timeline_finish(&timeline);
	ck_assert_uint_le(timeline.count, TIMELINE_STEPS);
	ck_assert_uint_gt(timeline.count, TIMELINE_STEPS / 4);
	uint64_t allocations = 0, before_bytes = 0;
	for (size_t i = 0; i < timeline.count; i++) {
		allocations += timeline.step[i].allocations;
		ck_assert_uint_gt(timeline.step[i].live_bytes, before_bytes);
		before_bytes = timeline.step[i].live_bytes;
	}
	ck_assert_uint_eq(allocations, 100000);
	ck_assert_uint_eq(before_bytes, 1000000);
}

HT_TEST(samples_may_run_ahead_of_events)
{
	begin();
	note(MEMORY_RSS, 50000000, 1);
	allocate(2000000, 10);
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.step[2].allocations, 1);
	ck_assert_uint_eq(timeline.step[50].allocations, 0);
	ck_assert_uint_eq(timeline.step[50].live_bytes, 10);
}

/* Readings may have different figures: the last value of each figure is kept. */
HT_TEST(each_figure_of_memory_is_kept)
{
	begin();
	note(MEMORY_ANONYMOUS, 0, 10);
	note(MEMORY_FILE, 500000, 20);
	note(MEMORY_ANONYMOUS, 1500000, 30);
	timeline_join(&timeline);
	ck_assert_uint_eq(timeline.memory[0].number[MEMORY_ANONYMOUS], 30);
	ck_assert_uint_eq(timeline.memory[0].number[MEMORY_FILE], 20);
	ck_assert(!timeline.memory[0].is_known[MEMORY_RSS]);
	ck_assert(!timeline.memory[1].is_known[MEMORY_ANONYMOUS]);
}

HT_TEST(a_sample_may_widen_the_steps_under_an_event)
{
	begin();
	allocate(400000000, 10);
	note(MEMORY_RSS, 600000000, 1); /* more than 512 steps */
	allocate(401000000, 10);
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.step_ns, 2000000);
	ck_assert_uint_eq(timeline.step[200].allocations, 2);
}

HT_TEST(absurd_times_fit)
{
	begin();
	allocate(0, 1);
	allocate(4000000000000000000, 1);
	timeline_finish(&timeline);
	ck_assert_uint_le(timeline.count, TIMELINE_STEPS);
	ck_assert_uint_eq(timeline.step[timeline.count - 1].live_bytes, 2);
}

HT_SUITE("analyzer/timeline")
