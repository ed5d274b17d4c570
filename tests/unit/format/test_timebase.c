/* SPDX-License-Identifier: Apache-2.0
 *
 * TSC stamps as times, between, before and after the clock pairs.
 */
#include "format/timebase.h"

#include "tests/support/ht_check.h"

#define S 1000000000ull

static void check_near(uint64_t got, uint64_t want)
{
	ck_assert_uint_le(got, want + 2);
	ck_assert_uint_ge(got + 2, want);
}

HT_TEST(times_are_interpolated)
{
	struct timebase base;
	timebase_start(&base, 1000, 5 * S);
	ck_assert_uint_eq(timebase_ns(&base, 4000), 0); /* nothing known yet */
	timebase_add(&base, 1000 + 3 * S, 6 * S);	/* 3 GHz */
	check_near(timebase_ns(&base, 1000), 0);
	check_near(timebase_ns(&base, 1000 + 3 * S / 2), S / 2);
	check_near(timebase_ns(&base, 1000 + 6 * S), 2 * S);
	ck_assert_uint_eq(timebase_ns(&base, 0), 0);
	timebase_add(&base, 1000 + 6 * S, 8 * S); /* the TSC became slower */
	check_near(timebase_ns(&base, 1000 + 9 * S / 2), 2 * S);
}

HT_TEST(pairs_that_go_back_are_ignored)
{
	struct timebase base;
	timebase_start(&base, 0, S);
	timebase_add(&base, S, 2 * S);
	timebase_add(&base, S / 2, 3 * S);
	timebase_add(&base, 2 * S, S);
	timebase_add(&base, S + 1, 2 * S + 900000); /* too near to give a slope */
	check_near(timebase_ns(&base, S), S);
	check_near(timebase_ns(&base, 2 * S), 2 * S);
	ck_assert_uint_eq(timebase_since_start(&base, 0), 0);
}

HT_TEST(absurd_stamps_stay_in_range)
{
	struct timebase base;
	timebase_start(&base, 0, 0);
	timebase_add(&base, 1, UINT64_MAX);
	ck_assert_uint_gt(timebase_ns(&base, UINT64_MAX / 2), 0);
	ck_assert_uint_le(timebase_ns(&base, 1ull << 62), UINT64_MAX);
}

HT_TEST(near_and_far_stamps_are_computed_alike)
{
	static const uint64_t mono_ns[] = {S / 1000, S, 3 * S, UINT64_MAX / 8, UINT64_MAX / 2};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(mono_ns); i++) {
		struct timebase base;
		timebase_start(&base, S, 0);
		timebase_add(&base, 4 * S, mono_ns[i]);
		for (uint64_t step = 1; step < 4 * S; step += step / 3 + 1) {
			ck_assert_uint_eq(timebase_ns(&base, 4 * S + step),
				timebase_far_ns(&base, 4 * S + step));
			ck_assert_uint_eq(timebase_ns(&base, 4 * S - step),
				timebase_far_ns(&base, 4 * S - step));
		}
	}
}

HT_SUITE("analyzer/timebase")
