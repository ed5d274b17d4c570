/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of indices: in the order of first use, each index once.
 */
#include "analyzer/export/numbers.h"
#include "tests/support/ht_check.h"

HT_TEST(numbers_follow_the_order_of_first_use)
{
	struct numbers numbers;
	ck_no_err(numbers_init(&numbers, 10, "indices"));
	ck_assert_uint_eq(numbers_get(&numbers, 9), 0);
	ck_assert_uint_eq(numbers_get(&numbers, 0), 1);
	ck_assert_uint_eq(numbers_get(&numbers, 9), 0);
	ck_assert_uint_eq(numbers_get(&numbers, 4), 2);
	ck_assert_uint_eq(numbers.count, 3);
	ck_assert_uint_eq(numbers.index[0], 9);
	ck_assert_uint_eq(numbers.index[1], 0);
	ck_assert_uint_eq(numbers.index[2], 4);
	ck_assert_uint_eq(numbers.number_of[5], 0);
	numbers_deinit(&numbers);
	ck_assert_uint_eq(numbers.count, 0);
}

HT_TEST(an_empty_array_has_no_numbers)
{
	struct numbers numbers;
	ck_no_err(numbers_init(&numbers, 0, "indices"));
	ck_assert_uint_eq(numbers.count, 0);
	numbers_deinit(&numbers);
}

HT_SUITE("analyzer/numbers")
