/* SPDX-License-Identifier: Apache-2.0
 *
 * When the windows of a series begin, over days, and after delays.
 */
#include "attach/series/schedule.h"

#include "tests/support/ht_check.h"

#define S   1000000000ull
#define MIN (60 * S)

HT_TEST(windows_begin_at_even_distances)
{
	struct schedule schedule = {.first_ns = 5 * S, .every_ns = 10 * MIN, .count = UINT64_MAX};
	uint64_t missed, now_ns = 0;
	/* A week, in which each window takes another time. */
	for (uint64_t i = 0; i < 7 * 24 * 6; i++) {
		const uint64_t next_ns = schedule_next(&schedule, now_ns, &missed);
		ck_assert_uint_eq(next_ns, 5 * S + i * 10 * MIN);
		ck_assert_uint_eq(missed, 0);
		now_ns = next_ns + (i % 10) * MIN + 7 * S;
	}
}

HT_TEST(a_count_ends_the_series)
{
	struct schedule schedule = {.every_ns = MIN, .count = 3};
	uint64_t missed;
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_uint_eq(schedule_next(&schedule, i * MIN, &missed), i * MIN);
	ck_assert_uint_eq(schedule_next(&schedule, 3 * MIN, &missed), SCHEDULE_OVER);
	ck_assert_uint_eq(schedule_next(&schedule, 4 * MIN, &missed), SCHEDULE_OVER);
}

/* A machine that slept for a night records one window when it wakes, not fifty. */
HT_TEST(windows_that_are_past_are_left_out)
{
	struct schedule schedule = {.every_ns = 10 * MIN, .count = UINT64_MAX};
	uint64_t missed;
	ck_assert_uint_eq(schedule_next(&schedule, 0, &missed), 0);
	ck_assert_uint_eq(schedule_next(&schedule, 495 * MIN, &missed), 500 * MIN);
	ck_assert_uint_eq(missed, 49);
	ck_assert_uint_eq(schedule_next(&schedule, 501 * MIN, &missed), 510 * MIN);
	ck_assert_uint_eq(missed, 0);
	/* A window that is due just now is not missed. */
	ck_assert_uint_eq(schedule_next(&schedule, 520 * MIN, &missed), 520 * MIN);
	ck_assert_uint_eq(missed, 0);
	ck_assert_uint_eq(schedule_next(&schedule, 530 * MIN + 1, &missed), 540 * MIN);
	ck_assert_uint_eq(missed, 1);
}

HT_TEST(windows_without_a_distance_follow_each_other)
{
	struct schedule schedule = {.first_ns = 30 * S, .count = 2};
	uint64_t missed;
	ck_assert_uint_eq(schedule_next(&schedule, 0, &missed), 30 * S);
	ck_assert_uint_eq(schedule_next(&schedule, 77 * S, &missed), 77 * S);
	ck_assert_uint_eq(missed, 0);
	ck_assert_uint_eq(schedule_next(&schedule, 78 * S, &missed), SCHEDULE_OVER);
}

HT_SUITE("attach/series/schedule")
