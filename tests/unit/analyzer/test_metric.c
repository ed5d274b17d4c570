/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: the value of each for a set of blocks, and that sums of sets add up.
 */
#include "analyzer/query/metric.h"

#include <string.h>

#include "tests/support/ht_check.h"

static const struct sums sums = {.samples = 10,
	.allocations = 10,
	.allocated_bytes = 1000,
	.frees = 4,
	.freed_bytes = 300,
	.temporary = 3,
	.lifetime_us = 10,
	.growth_blocks = 5,
	.growth_bytes = -50,
	.live_blocks = 9,
	.live_bytes = 900,
	.peak_bytes = 950};

HT_TEST(each_metric_has_its_value)
{
	static const struct {
		const char *name;
		int64_t want;
		enum metric_unit unit;
	} cases[] = {
		{"outstanding", 700, METRIC_BYTES},
		{"survivors", 700, METRIC_BYTES},
		{"growth", -50, METRIC_BYTES},
		{"live", 900, METRIC_BYTES},
		{"peak", 950, METRIC_BYTES},
		{"allocated", 1000, METRIC_BYTES},
		{"calls", 10, METRIC_COUNT_OF_BLOCKS},
		{"temporary", 3, METRIC_COUNT_OF_BLOCKS},
		{"freed", 300, METRIC_BYTES},
		{"lifetime", 2500, METRIC_TIME_NS},
	};
	ck_assert_uint_eq(HT_ARRAY_SIZE(cases), METRIC_COUNT);
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		const enum metric metric = (enum metric)i;
		ck_assert_int_eq(metric_value(&sums, metric), cases[i].want);
		ck_assert_int_eq(metric_info(metric)->unit, cases[i].unit);
		ck_assert_str_eq(metric_info(metric)->name, cases[i].name);
		ck_assert(metric_info(metric)->is_signed || metric_value(&sums, metric) >= 0);
	}
}

HT_TEST(only_the_peak_of_a_part_is_no_exact_figure)
{
	for (unsigned i = 0; i < METRIC_COUNT; i++) {
		ck_assert(metric_is_exact((enum metric)i, true));
		ck_assert(metric_is_exact((enum metric)i, false) == (i != METRIC_PEAK));
	}
}

HT_TEST(sets_add_up)
{
	struct sums sum = {0};
	ck_assert(sums_are_zero(&sum));
	ck_assert_int_eq(metric_value(&sum, METRIC_LIFETIME), 0);
	sums_add(&sum, &sums);
	ck_assert_mem_eq(&sum, &sums, sizeof(sum));
	sums_add(&sum, &sums);
	/* Each member is a number of 64 bits. */
	uint64_t one[sizeof(sums) / 8], two[sizeof(sums) / 8];
	memcpy(one, &sums, sizeof(sums));
	memcpy(two, &sum, sizeof(sum));
	for (size_t i = 0; i < HT_ARRAY_SIZE(one); i++)
		ck_assert_uint_eq(two[i], 2 * one[i]);
	ck_assert_int_eq(metric_value(&sum, METRIC_LIFETIME), 2500);
}

HT_TEST(any_figure_makes_a_set_count)
{
	const struct sums set[] = {{.allocations = 1}, {.frees = 1}, {.growth_blocks = -1},
		{.live_blocks = 1}, {.growth_bytes = -1}, {.live_bytes = 1}, {.peak_bytes = 1}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(set); i++)
		ck_assert(!sums_are_zero(&set[i]));
}

HT_SUITE("analyzer/metric")
