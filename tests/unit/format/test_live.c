/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of live blocks, compared with a plain array.
 */
#include "format/live.h"

#include <stdlib.h>

#include "tests/support/ht_check.h"

#define BLOCKS 3000u

static uint64_t addr_of(unsigned i)
{
	return 0x7f0000000000 + 16 * (uint64_t)i;
}

/* Puts a block in; returns the size of the one that was live there, or 0. */
static uint64_t put(struct live *live, uint64_t addr, uint64_t size)
{
	ck_no_err(live_reserve(live));
	struct live_entry *entry = live_enter(live, addr);
	ck_assert_uint_eq(entry->addr, addr);
	const uint64_t older = live_is_live(entry) ? entry->size : 0;
	entry->size = size;
	entry->birth_ns = size;
	entry->origin_flags = LIVE_IS_LIVE | (uint32_t)size << LIVE_ORIGIN_SHIFT;
	return older;
}

/* Takes a block out; returns its size, or 0. */
static uint64_t take(struct live *live, uint64_t addr)
{
	const struct live_entry *entry = live_leave(live, addr);
	if (entry)
		ck_assert_uint_eq(entry->origin_flags >> LIVE_ORIGIN_SHIFT, entry->size);
	return entry ? entry->size : 0;
}

HT_TEST(it_holds_what_was_put_and_not_taken)
{
	static uint64_t size[BLOCKS]; /* 0: not in the set */
	struct live live = {0};
	size_t count = 0;
	srandom(3);
	for (unsigned step = 1; step <= 200000; step++) {
		unsigned i = (unsigned)random() % BLOCKS;
		if (size[i] && random() % 2) {
			ck_assert_uint_eq(take(&live, addr_of(i)), size[i]);
			ck_assert_uint_eq(take(&live, addr_of(i)), 0);
			size[i] = 0;
			count--;
		} else {
			ck_assert_uint_eq(put(&live, addr_of(i), step), size[i]);
			count += !size[i];
			size[i] = step;
		}
		ck_assert_uint_eq(live.count, count);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		ck_assert_uint_eq(take(&live, addr_of(i)), size[i]);
	ck_assert_uint_gt(count, 0);
	ck_assert_uint_eq(live.count, 0);
	live_deinit(&live);
}

HT_TEST(the_dead_give_their_places_up)
{
	struct live live = {0};
	for (unsigned i = 0; i < 100; i++)
		put(&live, addr_of(i), 1);
	for (unsigned i = 100; i < 200000; i++) {
		put(&live, addr_of(i), 2);
		ck_assert_uint_eq(take(&live, addr_of(i)), 2);
	}
	ck_assert_uint_eq(live.count, 100);
	ck_assert_uint_le(live.capacity, 1024);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_uint_eq(take(&live, addr_of(i)), 1);
	live_deinit(&live);
}

HT_TEST(a_large_set_is_listed_oldest_first)
{
	const unsigned many = 200000; /* more than fit in a huge page */
	struct live live = {0};
	for (unsigned i = 0; i < many; i++)
		put(&live, addr_of(many - i), i + 1);
	for (unsigned i = 0; i < many; i += 2)
		ck_assert_uint_eq(take(&live, addr_of(many - i)), i + 1);
	live_list(&live);
	ck_assert_uint_eq(live.count, many / 2);
	for (unsigned i = 0; i < many / 2; i++)
		ck_assert_uint_eq(live.slot[i].size, 2 * i + 2);
	live_deinit(&live);
}

/* Returns the inverse of the factor by which addresses are multiplied. */
static uint64_t inverse_of_multiplier(void)
{
	uint64_t inverse = 1;
	for (unsigned i = 0; i < 6; i++) /* Newton's method: the right bits double each time */
		inverse *= 2 - LIVE_MULTIPLIER * inverse;
	return inverse;
}

HT_TEST(addresses_that_are_made_to_collide_do_not)
{
	const uint64_t inverse = inverse_of_multiplier();
	struct live live = {0};
	ck_assert_uint_eq(inverse * LIVE_MULTIPLIER, 1);
	for (unsigned i = 1; i <= 50000; i++)
		put(&live, i * inverse, i);
	ck_assert_uint_ne(live.multiplier, LIVE_MULTIPLIER);
	for (unsigned i = 1; i <= 50000; i++) {
		const struct live_entry *entry = live_place(&live, i * inverse);
		const size_t home = live_home(&live, i * inverse);
		ck_assert_uint_lt(
			((size_t)(entry - live.slot) - home) & (live.capacity - 1), 2 * LIVE_FAR);
	}
	live_deinit(&live);
}

HT_TEST(an_empty_set_has_nothing)
{
	struct live live = {0};
	ck_assert_ptr_null(live_leave(&live, 0x10));
	ck_assert_ptr_null(live_leave(&live, 0));
	put(&live, 16, 1);
	ck_assert_ptr_null(live_leave(&live, 0));
	live_deinit(&live);
}

HT_SUITE("analyzer/live")
