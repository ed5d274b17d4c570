/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of stacks with their threads and functions.
 */
#include "analyzer/model/origins.h"

#include "analyzer/model/nodes.h"
#include "tests/support/ht_check.h"

static uint32_t number_of(struct origins *origins, uint32_t stack, uint32_t thread, uint8_t hook)
{
	uint32_t number = 0;
	ck_no_err(origins_number(origins, stack, thread, hook, &number));
	ck_assert_uint_ne(number, 0);
	const struct origin *origin = origins_get(origins, number);
	ck_assert_uint_eq(origin->stack, stack);
	ck_assert_uint_eq(origin->thread, thread);
	ck_assert_uint_eq(origin->hook, hook);
	return number;
}

HT_TEST(each_has_a_number_of_its_own_which_stays)
{
	struct origins origins = {0};
	uint32_t number[3][5][2];
	for (unsigned round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 3 * 5 * 2; i++) {
			const uint32_t a = i % 3, b = i / 3 % 5;
			const uint8_t c = (uint8_t)(i / 15);
			const uint32_t got = number_of(&origins, a * 70, b, c);
			if (round)
				ck_assert_uint_eq(got, number[a][b][c]);
			number[a][b][c] = got;
		}
	ck_assert_uint_eq(origins.count, 3 * 5 * 2);
	origins_deinit(&origins);
}

HT_TEST(stacks_without_numbers_of_functions_have_others)
{
	struct origins origins = {0};
	const uint32_t of_node = number_of(&origins, 5, 1, 1);
	ck_assert_uint_ne(number_of(&origins, NODES_MAX + 5, 1, 1), of_node);
	ck_assert_uint_eq(number_of(&origins, 5, 1, 1), of_node);
	origins_deinit(&origins);
}

HT_SUITE("analyzer/origins")
