/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of operators new (ABI_NEWS): which function they call, or jump to.
 */
#include <errno.h>

#include "agent/hooks.h"
#include "tests/unit/agent/world.h"

static struct {
	void *answer;
	unsigned calls;
	uint64_t args[3];
	void (*during)(void);
} real;

static uint8_t block_a[64], block_b[64];

static void *real_three(size_t a, size_t b, size_t c)
{
	real.calls++;
	memcpy(real.args, (uint64_t[]){a, b, c}, sizeof(real.args));
	if (real.during)
		real.during();
	return real.answer;
}

static void setup(void)
{
	world_make();
	memset(&real, 0, sizeof(real));
	real.answer = block_a;
}

/* The function that stands in for an operator new. */
static struct {
	void *answer;
	unsigned calls;
	uint64_t args[2];
} plain;

static void *plain_two(size_t a, size_t b)
{
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IN_REAL);
	ck_assert_uint_eq(real.calls, 0);
	plain.calls++;
	plain.args[0] = a;
	plain.args[1] = b;
	errno = 1234;
	return plain.answer;
}

static const struct {
	enum abi_hook hook;
	void *(*function)(size_t, size_t, size_t, const struct abi_thunk *);
	size_t first, second, bytes;
	uint64_t args[2]; /* of the plain function */
	size_t count;	  /* of `args` */
} news[] = {
	{ABI_NEW_BYTES, heaptap_hook_new_bytes, 100, 4711, 100, {100}, 1},
	{ABI_NEW_COUNT, heaptap_hook_new_count, 10, 11, 110, {10, 11}, 2},
	{ABI_NEW_ALIGNED, heaptap_hook_new_aligned, 100, 64, 100, {64, 100}, 2},
};

static struct abi_thunk new_begin(size_t i)
{
	setup();
	memset(&plain, 0, sizeof(plain));
	plain.answer = block_a;
	struct abi_thunk self = world_thunk(news[i].hook, real_three);
	self.plain_index = 3;
	world_config->plain[3] = (uint64_t)plain_two;
	return self;
}

HT_TEST(operators_new_call_what_is_plain)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(news); i++) {
		struct abi_thunk self = new_begin(i);
		ck_assert_ptr_eq(
			news[i].function(news[i].first, news[i].second, 77, &self), block_a);
		ck_assert_uint_eq(plain.calls, 1);
		ck_assert_mem_eq(plain.args, news[i].args, 8 * news[i].count);
		ck_assert_uint_eq(real.calls, 0);
		struct event event;
		ck_assert_uint_eq(world_events(world_my_slot(0), &event, 1), 1);
		ck_assert_int_eq(event.kind, ABI_EVENT_ALLOC);
		ck_assert_uint_eq(event.hook, abi_recorded_as(news[i].hook));
		ck_assert_uint_eq(event.addr, (uint64_t)block_a);
		ck_assert_uint_eq(event.size, news[i].bytes);
		ck_assert_uint_ne(event.stack, 0);
		ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
		ck_assert_int_eq(errno, 1234);
	}
}

static void check_is_outside(void)
{
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

/* The hook jumps to the real operator: with the arguments, and the return address, of the original
 * call. */
HT_TEST(operators_new_are_called_where_there_is_nothing)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(news); i++) {
		struct abi_thunk self = new_begin(i);
		plain.answer = NULL;
		real.answer = block_b;
		real.during = check_is_outside;
		ck_assert_ptr_eq(
			news[i].function(news[i].first, news[i].second, 77, &self), block_b);
		ck_assert_uint_eq(plain.calls, 1);
		ck_assert_uint_eq(real.calls, 1);
		const uint64_t args[] = {news[i].first, news[i].second, 77};
		ck_assert_mem_eq(real.args, args, sizeof(args));
		ck_assert_uint_eq(world_my_slot(0)->head.events, 0);
		ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, 1);
	}
}

HT_TEST(operators_new_without_a_plain_one_are_only_forwarded)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(news); i++) {
		struct abi_thunk self = new_begin(i);
		self.plain_index = i % 2 ? ABI_PLAIN_MAX : 0;
		ck_assert_ptr_eq(
			news[i].function(news[i].first, news[i].second, 77, &self), block_a);
		ck_assert_uint_eq(plain.calls, 0);
		ck_assert_uint_eq(real.calls, 1);
	}
}

HT_SUITE("agent/new")
