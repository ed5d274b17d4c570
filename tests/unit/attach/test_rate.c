/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/control/rate.h"

#include "tests/support/ht_check.h"

#define S 1000000000ull

HT_TEST(without_a_look_there_is_no_rate)
{
	const struct rate rate = {0};
	const struct rate_look now = {5 * S, 100, 1000};
	ck_assert(rate_is_due(&rate, 0));
	ck_assert_uint_eq(rate_events_per_s(&rate, &now), 0);
	ck_assert_uint_eq(rate_bytes_per_min(&rate, &now), 0);
}

HT_TEST(a_rate_goes_back_to_the_oldest_look)
{
	struct rate rate = {0};
	rate_note(&rate, &(struct rate_look){10 * S, 100, 1000});
	ck_assert(!rate_is_due(&rate, 11 * S - 1));
	ck_assert(rate_is_due(&rate, 11 * S));
	rate_note(&rate, &(struct rate_look){11 * S, 500, 1000});
	const struct rate_look now = {12 * S, 700, 1010};
	ck_assert_uint_eq(rate_events_per_s(&rate, &now), 300);
	ck_assert_uint_eq(rate_bytes_per_min(&rate, &now), 300);
}

/* The rate is of the last eight looks. */
HT_TEST(old_looks_are_forgotten)
{
	struct rate rate = {0};
	for (uint64_t i = 0; i < 20; i++)
		rate_note(&rate, &(struct rate_look){i * S, i < 12 ? 0 : (i - 12) * 50, 0});
	const struct rate_look now = {20 * S, 400, 0};
	ck_assert_uint_eq(rate_events_per_s(&rate, &now), 50);
}

/* A file that was cut, a clock that stands still, and huge numbers give 0 or the largest number. */
HT_TEST(nonsense_is_no_rate)
{
	struct rate rate = {0};
	rate_note(&rate, &(struct rate_look){S, 10, 0});
	ck_assert_uint_eq(rate_events_per_s(&rate, &(struct rate_look){2 * S, 5, 0}), 0);
	ck_assert_uint_eq(rate_events_per_s(&rate, &(struct rate_look){S, 20, 0}), 0);
	ck_assert_uint_eq(
		rate_bytes_per_min(&rate, &(struct rate_look){S + 1, 0, UINT64_MAX}), UINT64_MAX);
}

HT_SUITE("attach/control/rate")
