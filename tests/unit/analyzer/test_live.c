/* SPDX-License-Identifier: Apache-2.0
 *
 * The live set against a plain array.
 */
#include "analyzer/model/live.h"

#include <stdlib.h>

#include "tests/support/ht_check.h"

#define BLOCKS 3000u

static uint64_t addr_of(unsigned i)
{
	return 0x7f0000000000 + 16 * (uint64_t)i;
}

START_TEST(it_holds_what_was_put_and_not_taken)
{
	static uint64_t size[BLOCKS]; /* 0: not in it */
	struct live live = {0};
	srandom(3);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i = (unsigned)random() % BLOCKS;
		struct live_block block = {.addr = addr_of(i), .size = step + 1}, other;
		bool replaced;
		if (size[i] && random() % 2) {
			ck_assert(live_take(&live, addr_of(i), &other));
			ck_assert_uint_eq(other.size, size[i]);
			size[i] = 0;
			continue;
		}
		ck_no_err(live_put(&live, &block, &other, &replaced));
		ck_assert_int_eq(replaced, size[i] != 0);
		if (replaced)
			ck_assert_uint_eq(other.size, size[i]);
		size[i] = block.size;
	}
	size_t count = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct live_block block;
		ck_assert_int_eq(live_take(&live, addr_of(i), &block), size[i] != 0);
		count += size[i] != 0;
	}
	ck_assert_uint_gt(count, 0);
	ck_assert_uint_eq(live.count, 0);
	live_deinit(&live);
}
END_TEST

START_TEST(an_empty_set_has_nothing)
{
	struct live live = {0};
	struct live_block block;
	ck_assert(!live_take(&live, 0x10, &block));
	ck_assert(!live_take(&live, 0, &block));
	live_deinit(&live);
}
END_TEST

HT_SUITE("analyzer/live", it_holds_what_was_put_and_not_taken, an_empty_set_has_nothing)
