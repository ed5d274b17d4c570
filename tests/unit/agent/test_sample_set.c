/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of samples alone: it holds each inserted address once, and the filter counts the
 * addresses.
 */
#include "agent/sample.h"

#include "tests/unit/agent/world.h"

static void setup(void)
{
	world_make();
}

HT_TEST(the_set_holds_what_is_put_in)
{
	enum { COUNT = 200000 };
	setup();
	for (uint64_t i = 1; i <= COUNT; i++)
		ck_assert(sample_insert(world_config, i * 1040));
	ck_assert(sample_insert(world_config, 1040)); /* once */
	ck_assert(!sample_remove(world_config, 0));
	ck_assert(!sample_remove(world_config, 1040 + 16));
	ck_assert_uint_eq(world_filter_sum(), COUNT);
	for (uint64_t i = COUNT; i >= 1; i--) {
		ck_assert(sample_remove(world_config, i * 1040));
		ck_assert(!sample_remove(world_config, i * 1040));
	}
	ck_assert_uint_eq(world_filter_sum(), 0);
	ck_assert_uint_eq(world_control->samples_lost, 0);
}

HT_TEST(a_filter_that_cannot_count_on_stays)
{
	setup();
	for (uint64_t i = 1; i <= 300; i++)
		ck_assert(sample_insert(world_config, i * 1024 * ABI_FILTER_BYTES));
	ck_assert_uint_eq(world_filter_sum(), UINT8_MAX);
	for (uint64_t i = 1; i <= 300; i++)
		ck_assert(sample_remove(world_config, i * 1024 * ABI_FILTER_BYTES));
	ck_assert_uint_eq(world_filter_sum(), UINT8_MAX);
}

HT_SUITE("agent/sample_set")
