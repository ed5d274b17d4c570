/* SPDX-License-Identifier: Apache-2.0
 *
 * Which thread waits when the dynamic linker unlocks, and until when.
 */
#include "agent/load.h"

#include <link.h>

#include "tests/unit/agent/world.h"

enum { LISTS = 4096, DONE = LISTS + 40, OTHER = LISTS - 40 };

/* glibc's list of link namespaces, with two entries. */
static struct {
	struct r_debug base;
	uint64_t next;
} list[2];

static struct abi_thunk thunk;
static unsigned waits, answer_at;
static uint64_t step_tsc;

static long fake_wait(int fd)
{
	ck_assert_int_eq(fd, -1);
	ck_assert_uint_eq(world_control->load_calling, 1);
	sys_fake.tsc += step_tsc;
	if (++waits == answer_at)
		world_control->load_seen = world_control->load_asks;
	return 0;
}

static void setup(void)
{
	world_make();
	thunk = (struct abi_thunk){.config = (uint64_t)world_config};
	memset(list, 0, sizeof(list));
	list[0].base.r_version = 2;
	list[0].next = (uint64_t)&list[1];
	world_config->load_list = (uint64_t)list;
	world_config->linker_lo = (uint64_t)list;
	world_config->linker_hi = (uint64_t)(list + 2);
	world_config->load_lists_lock = LISTS;
	world_config->load_done_lock = DONE;
	world_config->load_cycles_max = 1000000;
	world_config->load_listens = 1;
	world_control->tick = 5;
	sys_fake.wait_writable = fake_wait;
	waits = 0;
	answer_at = 3;
	step_tsc = 1000;
}

static void load_library(void)
{
	guard_load(LISTS, &thunk);
	guard_load(LISTS, &thunk);
	guard_load(OTHER, &thunk);
	ck_assert_uint_eq(waits, 0);
	guard_load(DONE, &thunk);
}

HT_TEST(a_thread_that_has_added_a_library_waits)
{
	setup();
	load_library();
	ck_assert_uint_eq(waits, 3);
	ck_assert_uint_eq(world_control->load_asks, 1);
	ck_assert_uint_eq(world_control->load_late, 0);
	ck_assert_uint_eq(world_control->load_calling, 0);
	/* The thread waits once for all libraries that were added. */
	guard_load(DONE, &thunk);
	guard_load(OTHER, &thunk);
	ck_assert_uint_eq(waits, 3);
}

HT_TEST(others_do_not_wait)
{
	static struct world_tcb other;
	setup();
	guard_load(DONE, &thunk);
	/* Another thread unlocks meanwhile. */
	guard_load(LISTS, &thunk);
	world_become(&other, 77);
	guard_load(DONE, &thunk);
	ck_assert_uint_eq(waits, 0);
	world_become(&world_tcb, WORLD_TID);
	guard_load(DONE, &thunk);
	ck_assert_uint_eq(waits, 3);
}

HT_TEST(unloading_does_not_wait)
{
	for (unsigned space = 0; space < 2; space++) {
		setup();
		list[space].base.r_state = RT_DELETE;
		guard_load(LISTS, &thunk);
		guard_load(DONE, &thunk);
		list[space].base.r_state = RT_CONSISTENT;
		guard_load(DONE, &thunk);
		ck_assert_uint_eq(waits, 0);
	}
}

/* dlopen has added a library and removes it again. */
HT_TEST(a_dlopen_that_fails_does_not_wait)
{
	setup();
	guard_load(LISTS, &thunk);
	list[0].base.r_state = RT_DELETE;
	guard_load(DONE, &thunk);
	list[0].base.r_state = RT_CONSISTENT;
	guard_load(DONE, &thunk);
	ck_assert_uint_eq(waits, 0);
	ck_assert_uint_eq(world_control->load_asks, 0);
}

HT_TEST(where_no_daemon_listens)
{
	for (unsigned i = 0; i < 4; i++) {
		setup();
		world_config->load_listens = i != 0;
		world_config->stop = i == 1;
		world_state->alive = i == 2 ? ABI_FORKED : i == 3 ? ABI_MUTE : ABI_ALIVE;
		load_library();
		ck_assert_uint_eq(waits, 0);
		ck_assert_uint_eq(world_control->load_asks, 0);
	}
}

/* A list that leads out of the dynamic linker is not followed. */
HT_TEST(lists_elsewhere)
{
	setup();
	list[0].next = (uint64_t)&list[1] + 8;
	list[1].base.r_state = RT_DELETE;
	load_library();
	ck_assert_uint_eq(waits, 3);
	setup();
	world_config->load_list = (uint64_t)list + 1;
	load_library();
	ck_assert_uint_eq(waits, 3);
}

HT_TEST(a_wait_has_an_end)
{
	setup();
	answer_at = 0;
	load_library();
	ck_assert_uint_ge(waits, 900);
	ck_assert_uint_le(waits, 1002);
	ck_assert_uint_eq(world_control->load_late, 1);
	/* The daemon has not looked since the wait that was too long: until it does, no thread
	 * waits again. */
	waits = 0;
	load_library();
	ck_assert_uint_eq(waits, 0);
	ck_assert_uint_eq(world_control->load_late, 2);
	world_control->tick++;
	answer_at = 1;
	load_library();
	ck_assert_uint_eq(waits, 1);
	ck_assert_uint_eq(world_control->load_late, 2);
}

static long stop_it(int fd)
{
	(void)fd;
	waits++;
	world_config->stop = 1;
	return 0;
}

HT_TEST(a_wait_ends_when_the_capture_does)
{
	setup();
	sys_fake.wait_writable = stop_it;
	load_library();
	ck_assert_uint_eq(waits, 1);
	ck_assert_uint_eq(world_control->load_late, 0);
}

HT_TEST(without_system_calls)
{
	setup();
	world_config->flags = ABI_FLAG_NO_SYSCALL;
	world_config->load_cycles_max = 1000;
	load_library();
	ck_assert_uint_eq(waits, 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
	ck_assert_uint_eq(world_control->load_late, 1);
}

HT_SUITE("agent/load")
