/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a realloc in a pause: the agent records the ends of blocks, but no new blocks. Tests a
 * capture of all calls, and one of a sample. In a pause the program calls no hook of a function
 * that only allocates (tests/unit/attach/test_image_paused.c).
 */
#include "agent/hooks.h"

#include "tests/unit/agent/world.h"

static uint8_t block_a[64], block_b[64];
static void *answer;
static struct event events[16];

static void *real_realloc(void *old, size_t size)
{
	(void)old;
	(void)size;
	return answer;
}

static void real_free(void *block)
{
	(void)block;
}

static size_t record(void *(*function)(void *, size_t, const struct abi_thunk *), void *old,
	size_t size, void *gives)
{
	struct abi_thunk self = world_thunk(ABI_HOOK_REALLOC, real_realloc);
	answer = gives;
	ck_assert_ptr_eq(function(old, size, &self), gives);
	struct abi_slot *slot = world_my_slot(0);
	ck_assert_uint_eq(slot->head.state, ABI_SLOT_IDLE);
	return world_events(slot, events, HT_ARRAY_SIZE(events));
}

HT_TEST(a_realloc_ends_the_old_block_and_begins_none)
{
	world_make();
	world_config->paused = 1;
	ck_assert_uint_eq(record(heaptap_hook_realloc, block_b, 50, block_a), 2);
	ck_assert_int_eq(events[0].kind, ABI_EVENT_REALLOC_BEGIN);
	ck_assert_uint_eq(events[0].addr, (uint64_t)block_b);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_FREED);
	world_config->paused = 0;
	ck_assert_uint_eq(record(heaptap_hook_realloc, block_b, 50, block_a), 4);
	ck_assert_int_eq(events[3].kind, ABI_EVENT_REALLOC_END);
}

HT_TEST(a_realloc_of_nothing_records_nothing)
{
	world_make();
	world_config->paused = 1;
	ck_assert_uint_eq(record(heaptap_hook_realloc, NULL, 50, block_a), 0);
}

HT_TEST(a_realloc_that_fails_leaves_the_old_block)
{
	world_make();
	world_config->paused = 1;
	ck_assert_uint_eq(record(heaptap_hook_realloc, block_b, 50, NULL), 2);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_FAIL);
	ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, 1);
}

HT_TEST(a_free_is_recorded)
{
	world_make();
	world_config->paused = 1;
	struct abi_thunk self = world_thunk(ABI_HOOK_FREE, real_free);
	heaptap_hook_free(block_a, &self);
	ck_assert_uint_eq(world_events(world_my_slot(0), events, HT_ARRAY_SIZE(events)), 1);
	ck_assert_int_eq(events[0].kind, ABI_EVENT_FREE);
}

/* With a sampling point on each byte, all calls are sampled. */
HT_TEST(a_sample_forgets_the_old_block_and_takes_no_new_one)
{
	world_make();
	world_config->sample_bytes = 1;
	ck_assert_uint_eq(record(heaptap_sampled_realloc, NULL, 4000, block_a), 1);
	world_config->paused = 1;
	ck_assert_uint_eq(record(heaptap_sampled_realloc, NULL, 4000, block_b), 1);
	ck_assert_uint_eq(record(heaptap_sampled_realloc, block_a, 4000, block_b), 3);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_BEGIN);
	ck_assert_int_eq(events[2].kind, ABI_EVENT_REALLOC_FREED);
	ck_assert_uint_eq(world_filter_sum(), 0);
}

/* The window is over: a block that it recorded is followed to its new address. */
HT_TEST(settling_follows_a_recorded_block)
{
	world_make();
	world_config->paused = ABI_PAUSED_SETTLE;
	ck_assert_uint_eq(record(heaptap_hook_realloc, NULL, 50, block_b), 0);
	ck_assert_uint_eq(record(heaptap_hook_realloc, block_b, 50, block_a), 2);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_END);
	ck_assert_uint_eq(events[1].addr, (uint64_t)block_a);
}

HT_TEST(settling_follows_a_sample_and_takes_no_other_block)
{
	world_make();
	world_config->sample_bytes = 1;
	ck_assert_uint_eq(record(heaptap_sampled_realloc, NULL, 4000, block_a), 1);
	world_config->paused = ABI_PAUSED_SETTLE;
	world_config->sample_bytes = UINT64_MAX / 64; /* the new block is not sampled by chance */
	ck_assert_uint_eq(record(heaptap_sampled_realloc, NULL, 4000, block_b), 1);
	ck_assert_uint_eq(record(heaptap_sampled_realloc, block_a, 8000, block_b), 3);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_BEGIN);
	ck_assert_int_eq(events[2].kind, ABI_EVENT_REALLOC_END);
	ck_assert_uint_eq(world_filter_sum(), 1);
}

HT_SUITE("agent/hooks paused")
