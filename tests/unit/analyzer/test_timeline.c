/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over time: bounded, and with sums that stay.
 */
#include "analyzer/cube/timeline.h"

#include "tests/support/ht_check.h"

static struct timeline timeline;

#define ONE(bytes_) ((struct sample_share){1, bytes_})

START_TEST(events_and_samples_fall_into_steps)
{
	timeline_init(&timeline);
	timeline_allocated(&timeline, 0, ONE(100));
	timeline_allocated(&timeline, 999999, ONE(50));
	timeline_freed(&timeline, 3000000, ONE(100), true);
	timeline_rss(&timeline, 5500000, 4096);
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.count, 6);
	ck_assert_uint_eq(timeline.step[0].allocations, 2);
	ck_assert_uint_eq(timeline.step[0].live_bytes, 150);
	ck_assert_uint_eq(timeline.step[1].live_bytes, 150); /* nothing happened */
	ck_assert_uint_eq(timeline.step[3].live_bytes, 50);
	ck_assert_uint_eq(timeline.step[3].live_max_bytes, 150);
	ck_assert_uint_eq(timeline.step[3].temporary, 1);
	ck_assert_uint_eq(timeline.step[5].live_bytes, 50);
	ck_assert(timeline.step[5].has_rss);
	ck_assert_uint_eq(timeline.step[5].rss_bytes, 4096);
}
END_TEST

START_TEST(a_long_window_has_wider_steps)
{
	timeline_init(&timeline);
	for (uint64_t i = 0; i < 100000; i++) {
		timeline_allocated(&timeline, i * 1000000, ONE(10));
		if (i % 1000 == 0)
			timeline_rss(&timeline, i * 1000000, i);
	}
	timeline_finish(&timeline);
	ck_assert_uint_le(timeline.count, TIMELINE_STEPS);
	ck_assert_uint_gt(timeline.count, TIMELINE_STEPS / 4);
	uint64_t allocations = 0, live_bytes = 0;
	for (size_t i = 0; i < timeline.count; i++) {
		allocations += timeline.step[i].allocations;
		ck_assert_uint_gt(timeline.step[i].live_bytes, live_bytes);
		live_bytes = timeline.step[i].live_bytes;
	}
	ck_assert_uint_eq(allocations, 100000);
	ck_assert_uint_eq(live_bytes, 1000000);
}
END_TEST

START_TEST(samples_may_run_ahead_of_events)
{
	timeline_init(&timeline);
	timeline_rss(&timeline, 50000000, 1);
	timeline_allocated(&timeline, 2000000, ONE(10));
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.step[2].allocations, 1);
	ck_assert_uint_eq(timeline.step[50].allocations, 0);
	ck_assert_uint_eq(timeline.step[50].live_bytes, 10);
}
END_TEST

START_TEST(a_sample_may_widen_the_steps_under_an_event)
{
	timeline_init(&timeline);
	timeline_allocated(&timeline, 400000000, ONE(10));
	timeline_rss(&timeline, 600000000, 1); /* more than 512 steps */
	timeline_allocated(&timeline, 401000000, ONE(10));
	timeline_finish(&timeline);
	ck_assert_uint_eq(timeline.step_ns, 2000000);
	ck_assert_uint_eq(timeline.step[200].allocations, 2);
}
END_TEST

START_TEST(absurd_times_fit)
{
	timeline_init(&timeline);
	timeline_allocated(&timeline, 0, ONE(1));
	timeline_allocated(&timeline, 4000000000000000000, ONE(1));
	timeline_finish(&timeline);
	ck_assert_uint_le(timeline.count, TIMELINE_STEPS);
	ck_assert_uint_eq(timeline.step[timeline.count - 1].live_bytes, 2);
}
END_TEST

HT_SUITE("analyzer/timeline", events_and_samples_fall_into_steps, a_long_window_has_wider_steps,
	samples_may_run_ahead_of_events, a_sample_may_widen_the_steps_under_an_event,
	absurd_times_fit)
