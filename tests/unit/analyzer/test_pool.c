/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbered strings: each once, in the order in which they are met.
 */
#include <stdio.h>
#include <string.h>

#include "analyzer/export/pool.h"
#include "tests/support/ht_check.h"

HT_TEST(each_string_has_one_number)
{
	static const char *const text[] = {"", "b", "a", "b", "", "c"};
	static const uint32_t want[] = {0, 1, 2, 1, 0, 3};
	struct pool pool = {0};
	for (size_t i = 0; i < HT_ARRAY_SIZE(text); i++) {
		uint32_t number;
		char copy[2];
		snprintf(copy, sizeof(copy), "%s", text[i]);
		ck_no_err(pool_number(&pool, copy, &number));
		ck_assert_uint_eq(number, want[i]);
		ck_assert_str_eq(pool.text[number], text[i]);
	}
	ck_assert_uint_eq(pool.count, 4);
	pool_deinit(&pool);
	ck_assert_uint_eq(pool.count, 0);
}

HT_TEST(many_strings_stay_where_they_are)
{
	struct pool pool = {0};
	char text[16];
	uint32_t number;
	for (uint32_t i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "%u", i % 10000);
		ck_no_err(pool_number(&pool, text, &number));
		ck_assert_uint_eq(number, i % 10000);
	}
	ck_assert_str_eq(pool.text[0], "0");
	ck_assert_str_eq(pool.text[9999], "9999");
	pool_deinit(&pool);
}

HT_SUITE("analyzer/pool")
