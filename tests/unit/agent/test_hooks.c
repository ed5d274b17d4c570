/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what each hook forwards, returns and records.
 */
#include "agent/hooks.h"

#include <errno.h>

#include "tests/unit/agent/world.h"

/* The real functions: they note their arguments and give what `answer` says. */
static struct {
	void *answer;
	int error;
	size_t usable; /* what xallocx returns */
	unsigned calls;
	uint64_t args[4];
	void (*during)(void);
} real;

static uint8_t block_a[64], block_b[64];

static void real_called(uint64_t a, uint64_t b, uint64_t c)
{
	real.calls++;
	real.args[0] = a;
	real.args[1] = b;
	real.args[2] = c;
	errno = 1234;
	if (real.during)
		real.during();
}

static void *real_one(size_t a)
{
	real_called(a, 0, 0);
	return real.answer;
}

static void *real_two(size_t a, size_t b)
{
	real_called(a, b, 0);
	return real.answer;
}

static void *real_three(void *a, size_t b, size_t c)
{
	real_called((uint64_t)a, b, c);
	return real.answer;
}

static void real_free(void *block)
{
	real_called((uint64_t)block, 0, 0);
}

static int real_out(void **out, size_t alignment, size_t size)
{
	real_called(0, alignment, size);
	if (real.error == 0)
		*out = real.answer;
	return real.error;
}

static void *real_sized(size_t size, size_t flags)
{
	return real_two(size, flags);
}

static void *real_rallocx(void *old, size_t size, size_t flags)
{
	return real_three(old, size, flags);
}

static size_t real_xallocx(void *block, size_t size, size_t extra, size_t flags)
{
	real_called((uint64_t)block, size, extra);
	real.args[3] = flags;
	return real.usable;
}

static void real_dallocx(void *block, size_t flags)
{
	real_called((uint64_t)block, flags, 0);
}

static void real_sdallocx(void *block, size_t size, size_t flags)
{
	real_called((uint64_t)block, size, flags);
}

static size_t real_usable(void *block)
{
	(void)block;
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_RECORDING);
	return 77;
}

static struct event events[64];

/* The only event of slot 0's buffer. */
static struct event only_event(void)
{
	ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 1);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 1);
	return events[0];
}

static void check_alloc(struct event event, enum abi_hook hook, const void *block, uint64_t size)
{
	ck_assert_int_eq(event.kind, ABI_EVENT_ALLOC);
	ck_assert_uint_eq(event.hook, hook);
	ck_assert_uint_eq(event.addr, (uint64_t)block);
	ck_assert_uint_eq(event.size, size);
	ck_assert_uint_eq(event.tid, WORLD_TID);
	ck_assert_uint_ne(event.stack, 0);
	ck_assert_int_eq(errno, 1234);
}

static void setup(void)
{
	world_make();
	memset(&real, 0, sizeof(real));
	real.answer = block_a;
	errno = 0;
}

HT_TEST(by_size)
{
	static const struct {
		enum abi_hook hook;
		void *(*function)(size_t size, const struct abi_thunk *self);
	} cases[] = {
		{ABI_HOOK_MALLOC, heaptap_hook_malloc},
		{ABI_HOOK_VALLOC, heaptap_hook_valloc},
		{ABI_HOOK_PVALLOC, heaptap_hook_pvalloc},
	};
	for (int i = 0; i < 3; i++) {
		setup();
		struct abi_thunk self = world_thunk(cases[i].hook, real_one);
		ck_assert_ptr_eq(cases[i].function(100, &self), block_a);
		ck_assert_uint_eq(real.args[0], 100);
		check_alloc(only_event(), cases[i].hook, block_a, 100);
	}
}

HT_TEST(by_alignment)
{
	static const struct {
		enum abi_hook hook;
		void *(*function)(size_t alignment, size_t size, const struct abi_thunk *self);
	} cases[] = {
		{ABI_HOOK_ALIGNED_ALLOC, heaptap_hook_aligned_alloc},
		{ABI_HOOK_MEMALIGN, heaptap_hook_memalign},
	};
	for (int i = 0; i < 2; i++) {
		setup();
		struct abi_thunk self = world_thunk(cases[i].hook, real_two);
		ck_assert_ptr_eq(cases[i].function(32, 100, &self), block_a);
		ck_assert_uint_eq(real.args[0], 32);
		ck_assert_uint_eq(real.args[1], 100);
		check_alloc(only_event(), cases[i].hook, block_a, 100);
	}
}

HT_TEST(calloc_multiplies)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_CALLOC, real_two);
	ck_assert_ptr_eq(heaptap_hook_calloc(7, 9, &self), block_a);
	ck_assert_uint_eq(real.args[0], 7);
	ck_assert_uint_eq(real.args[1], 9);
	check_alloc(only_event(), ABI_HOOK_CALLOC, block_a, 63);
}

HT_TEST(size_zero_is_recorded)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_MALLOC, real_one);
	ck_assert_ptr_eq(heaptap_hook_malloc(0, &self), block_a);
	check_alloc(only_event(), ABI_HOOK_MALLOC, block_a, 0);
}

HT_TEST(failure_is_counted)
{
	setup();
	struct abi_thunk one = world_thunk(ABI_HOOK_MALLOC, real_one);
	struct abi_thunk two = world_thunk(ABI_HOOK_CALLOC, real_two);
	real.answer = NULL;
	ck_assert_ptr_null(heaptap_hook_malloc(100, &one));
	ck_assert_ptr_null(heaptap_hook_malloc(0, &one)); /* some allocators return NULL here */
	ck_assert_ptr_null(heaptap_hook_calloc(SIZE_MAX, 3, &two));
	ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, 2);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 0);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

HT_TEST(posix_memalign_writes_through)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_POSIX_MEMALIGN, real_out);
	void *out = block_b;
	ck_assert_int_eq(heaptap_hook_posix_memalign(&out, 64, 100, &self), 0);
	ck_assert_ptr_eq(out, block_a);
	check_alloc(only_event(), ABI_HOOK_POSIX_MEMALIGN, block_a, 100);
}

HT_TEST(posix_memalign_fails)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_POSIX_MEMALIGN, real_out);
	void *out = block_b;
	real.error = EINVAL;
	ck_assert_int_eq(heaptap_hook_posix_memalign(&out, 3, 0, &self), EINVAL);
	ck_assert_ptr_eq(out, block_b);
	ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, 1);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 0);
}

static void check_free_is_recorded_already(void)
{
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IN_REAL);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 1);
}

HT_TEST(free_is_recorded_before)
{
	static void (*const functions[])(void *, const struct abi_thunk *) = {
		heaptap_hook_free, heaptap_hook_cfree};
	for (int i = 0; i < 2; i++) {
		setup();
		enum abi_hook hook = i ? ABI_HOOK_CFREE : ABI_HOOK_FREE;
		struct abi_thunk self = world_thunk(hook, real_free);
		self.usable_index = 2;
		world_config->usable[2] = (uint64_t)real_usable;
		real.during = check_free_is_recorded_already;
		functions[i](block_a, &self);
		ck_assert_uint_eq(real.args[0], (uint64_t)block_a);
		ck_assert_uint_eq(real.calls, 1);
		struct event event = only_event();
		ck_assert_int_eq(event.kind, ABI_EVENT_FREE);
		ck_assert_uint_eq(event.hook, hook);
		ck_assert_uint_eq(event.addr, (uint64_t)block_a);
		ck_assert_uint_eq(event.size, 77);
	}
}

/* The reader knows the size from the allocation, so the agent does not query the allocator. */
HT_TEST(free_of_a_new_block_asks_nothing)
{
	setup();
	struct abi_thunk get = world_thunk(ABI_HOOK_MALLOC, real_one);
	struct abi_thunk give = world_thunk(ABI_HOOK_FREE, real_free);
	give.usable_index = 2;
	world_config->usable[2] = (uint64_t)real_usable;
	ck_assert_ptr_eq(heaptap_hook_malloc(100, &get), block_a);
	heaptap_hook_free(block_a, &give);
	heaptap_hook_free(block_b, &give);
	ck_assert_uint_eq(world_events(world_my_slot(0), events, HT_ARRAY_SIZE(events)), 3);
	ck_assert_uint_eq(events[1].addr, (uint64_t)block_a);
	ck_assert_uint_eq(events[1].size, 0);
	ck_assert_uint_eq(events[2].addr, (uint64_t)block_b);
	ck_assert_uint_eq(events[2].size, 77);
}

static void see_in_real(void)
{
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IN_REAL);
}

/* Nothing is recorded, but during the call the slot says that the thread will return into the hook.
 */
HT_TEST(free_null_is_only_forwarded)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_FREE, real_free);
	real.during = see_in_real;
	heaptap_hook_free(NULL, &self);
	ck_assert_uint_eq(real.calls, 1);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 0);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

/* A thread was on its way into the hook when the daemon began to detach: its call is still in the
 * slot. */
HT_TEST(late_entry_is_in_the_books)
{
	setup();
	struct abi_thunk alloc = world_thunk(ABI_HOOK_MALLOC, real_one);
	struct abi_thunk give = world_thunk(ABI_HOOK_FREE, real_free);
	real.during = see_in_real;
	world_config->stop = 1;
	ck_assert_ptr_eq(heaptap_hook_malloc(100, &alloc), block_a);
	heaptap_hook_free(block_a, &give);
	ck_assert_uint_eq(real.calls, 2);
	ck_assert_uint_eq(world_my_slot(0)->head.events, 2);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

HT_TEST(realloc_of_nothing_allocates)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_REALLOC, real_two);
	ck_assert_ptr_eq(heaptap_hook_realloc(NULL, 50, &self), block_a);
	check_alloc(only_event(), ABI_HOOK_REALLOC, block_a, 50);
}

HT_TEST(realloc_moves)
{
	setup();
	sys_fake.tsc_step = ABI_TIME_UNIT;
	struct abi_thunk self = world_thunk(ABI_HOOK_REALLOC, real_two);
	self.usable_index = 1;
	world_config->usable[1] = (uint64_t)real_usable;
	real.during = check_free_is_recorded_already;
	ck_assert_ptr_eq(heaptap_hook_realloc(block_b, 50, &self), block_a);
	ck_assert_uint_eq(real.args[0], (uint64_t)block_b);
	ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
	ck_assert_int_eq(events[0].kind, ABI_EVENT_REALLOC_BEGIN);
	ck_assert_uint_eq(events[0].addr, (uint64_t)block_b);
	ck_assert_uint_eq(events[0].size, 77);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_END);
	ck_assert_uint_eq(events[1].addr, (uint64_t)block_a);
	ck_assert_uint_eq(events[1].size, 50);
	ck_assert_uint_eq(events[1].hook, ABI_HOOK_REALLOC);
	ck_assert_uint_gt(events[1].tsc, events[0].tsc);
}

HT_TEST(realloc_gives_nothing)
{
	for (int i = 0; i < 2; i++) {
		setup();
		struct abi_thunk self = world_thunk(ABI_HOOK_REALLOC, real_two);
		size_t size = i ? 50 : 0;
		real.answer = NULL;
		ck_assert_ptr_null(heaptap_hook_realloc(block_b, size, &self));
		ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
		ck_assert_int_eq(events[0].kind, ABI_EVENT_REALLOC_BEGIN);
		ck_assert_int_eq(
			events[1].kind, size ? ABI_EVENT_REALLOC_FAIL : ABI_EVENT_REALLOC_FREED);
		ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, size ? 1 : 0);
		ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
		ck_assert_int_eq(errno, 1234);
	}
}

HT_TEST(reallocarray_multiplies)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_REALLOCARRAY, real_three);
	ck_assert_ptr_eq(heaptap_hook_reallocarray(block_b, 6, 7, &self), block_a);
	ck_assert_uint_eq(real.args[1], 6);
	ck_assert_uint_eq(real.args[2], 7);
	ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
	ck_assert_uint_eq(events[1].size, 42);
	ck_assert_uint_eq(events[1].hook, ABI_HOOK_REALLOCARRAY);
}

HT_TEST(reallocarray_overflow_fails)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_REALLOCARRAY, real_three);
	real.answer = NULL;
	ck_assert_ptr_null(heaptap_hook_reallocarray(block_b, 1ull << 63, 2, &self));
	ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_FAIL);
}

/* The hooks pass flags on as whole registers. */
#define FLAGS (1ull << 63 | 0x47)

HT_TEST(mallocx_passes_flags)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_MALLOCX, real_sized);
	ck_assert_ptr_eq(heaptap_hook_mallocx(100, FLAGS, &self), block_a);
	ck_assert_uint_eq(real.args[0], 100);
	ck_assert_uint_eq(real.args[1], FLAGS);
	check_alloc(only_event(), ABI_HOOK_MALLOCX, block_a, 100);
}

HT_TEST(rallocx_moves)
{
	setup();
	struct abi_thunk self = world_thunk(ABI_HOOK_RALLOCX, real_rallocx);
	ck_assert_ptr_eq(heaptap_hook_rallocx(block_b, 50, FLAGS, &self), block_a);
	ck_assert_uint_eq(real.args[0], (uint64_t)block_b);
	ck_assert_uint_eq(real.args[1], 50);
	ck_assert_uint_eq(real.args[2], FLAGS);
	ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
	ck_assert_int_eq(events[0].kind, ABI_EVENT_REALLOC_BEGIN);
	ck_assert_uint_eq(events[0].addr, (uint64_t)block_b);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_REALLOC_END);
	ck_assert_uint_eq(events[1].hook, ABI_HOOK_RALLOCX);
	ck_assert_uint_eq(events[1].size, 50);
}

/* The block stays where it is; the size that is recorded is at least `size`, at most `size +
 * extra`. */
HT_TEST(xallocx_resizes_in_place)
{
	static const struct {
		size_t usable, recorded; /* 0: not granted */
	} cases[] = {{99, 0}, {0, 0}, {100, 100}, {105, 105}, {110, 110}, {4096, 110}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		setup();
		struct abi_thunk self = world_thunk(ABI_HOOK_XALLOCX, real_xallocx);
		real.usable = cases[i].usable;
		ck_assert_uint_eq(
			heaptap_hook_xallocx(block_b, 100, 10, FLAGS, &self), cases[i].usable);
		ck_assert_uint_eq(real.args[0], (uint64_t)block_b);
		ck_assert_uint_eq(real.args[1], 100);
		ck_assert_uint_eq(real.args[2], 10);
		ck_assert_uint_eq(real.args[3], FLAGS);
		ck_assert_uint_eq(world_events(world_my_slot(0), events, 64), 2);
		ck_assert_int_eq(events[0].kind, ABI_EVENT_REALLOC_BEGIN);
		ck_assert_int_eq(events[1].kind,
			cases[i].recorded ? ABI_EVENT_REALLOC_END : ABI_EVENT_REALLOC_FAIL);
		if (cases[i].recorded) {
			ck_assert_uint_eq(events[1].addr, (uint64_t)block_b);
			ck_assert_uint_eq(events[1].size, cases[i].recorded);
			ck_assert_uint_eq(events[1].hook, ABI_HOOK_XALLOCX);
		}
		ck_assert_uint_eq(world_my_slot(0)->head.failed_calls, 0);
		ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
		ck_assert_int_eq(errno, 1234);
	}
}

static void check_freed(enum abi_hook hook)
{
	struct event event = only_event();
	ck_assert_int_eq(event.kind, ABI_EVENT_FREE);
	ck_assert_uint_eq(event.hook, hook);
	ck_assert_uint_eq(event.addr, (uint64_t)block_a);
	ck_assert_uint_eq(real.args[0], (uint64_t)block_a);
}

HT_TEST(frees_with_arguments)
{
	setup();
	struct abi_thunk plain = world_thunk(ABI_HOOK_DALLOCX, real_dallocx);
	real.during = check_free_is_recorded_already;
	heaptap_hook_dallocx(block_a, FLAGS, &plain);
	check_freed(ABI_HOOK_DALLOCX);
	ck_assert_uint_eq(real.args[1], FLAGS);

	setup();
	struct abi_thunk sized = world_thunk(ABI_HOOK_SDALLOCX, real_sdallocx);
	real.during = check_free_is_recorded_already;
	heaptap_hook_sdallocx(block_a, 48, FLAGS, &sized);
	check_freed(ABI_HOOK_SDALLOCX);
	ck_assert_uint_eq(real.args[1], 48);
	ck_assert_uint_eq(real.args[2], FLAGS);
}

HT_TEST(sized_frees_are_recorded_as_free)
{
	setup();
	struct abi_thunk sized = world_thunk(ABI_HOOK_FREE_SIZED, real_dallocx);
	real.during = check_free_is_recorded_already;
	heaptap_hook_free_sized(block_a, 48, &sized);
	check_freed(ABI_HOOK_FREE);
	ck_assert_uint_eq(real.args[1], 48);

	setup();
	struct abi_thunk aligned = world_thunk(ABI_HOOK_FREE_ALIGNED_SIZED, real_sdallocx);
	real.during = check_free_is_recorded_already;
	heaptap_hook_free_aligned_sized(block_a, 64, 48, &aligned);
	check_freed(ABI_HOOK_FREE);
	ck_assert_uint_eq(real.args[1], 64);
	ck_assert_uint_eq(real.args[2], 48);
}

HT_TEST(forked_only_forwards)
{
	setup();
	struct abi_thunk alloc = world_thunk(ABI_HOOK_MALLOC, real_one);
	struct abi_thunk give = world_thunk(ABI_HOOK_FREE, real_free);
	struct abi_thunk again = world_thunk(ABI_HOOK_REALLOC, real_two);
	world_state->alive = 0;
	ck_assert_ptr_eq(heaptap_hook_malloc(100, &alloc), block_a);
	heaptap_hook_free(block_a, &give);
	ck_assert_ptr_eq(heaptap_hook_realloc(block_a, 5, &again), block_a);
	ck_assert_uint_eq(real.calls, 3);
	ck_assert_ptr_null(world_my_slot(0));
	ck_assert_uint_eq(sys_fake.calls, 0);
}

static void fork_now(void)
{
	world_state->alive = 0;
}

/* A signal handler forks during a hook. The child must not touch the slot. */
HT_TEST(fork_inside_the_real_function)
{
	for (int i = 0; i < 2; i++) {
		setup();
		struct abi_thunk alloc = world_thunk(ABI_HOOK_MALLOC, real_one);
		struct abi_thunk give = world_thunk(ABI_HOOK_FREE, real_free);
		struct abi_thunk again = world_thunk(ABI_HOOK_REALLOC, real_two);
		heaptap_hook_malloc(1, &alloc);
		struct abi_slot *slot = world_my_slot(0);
		struct abi_slot_head before = slot->head;
		real.during = fork_now;

		ck_assert_ptr_eq(heaptap_hook_malloc(100, &alloc), block_a);
		ck_assert_uint_eq(slot->head.committed, before.committed);
		ck_assert_uint_eq(slot->head.state, ABI_SLOT_IN_REAL);

		world_state->alive = 1;
		slot->head.state = ABI_SLOT_IDLE;
		heaptap_hook_free(block_a, &give);
		ck_assert_uint_eq(slot->head.state, ABI_SLOT_IN_REAL);

		world_state->alive = 1;
		slot->head.state = ABI_SLOT_IDLE;
		real.answer = NULL;
		heaptap_hook_realloc(block_b, i, &again);
		ck_assert_uint_eq(slot->head.state, ABI_SLOT_IN_REAL);
		ck_assert_uint_eq(slot->head.failed_calls, 0);
	}
}

static size_t usable_and_fork(void *block)
{
	(void)block;
	fork_now();
	return 48;
}

/* The child goes on into the real function, and its parent may have left the hook by then. */
HT_TEST(fork_before_the_real_function)
{
	for (int again = 0; again < 2; again++) {
		setup();
		struct abi_thunk alloc = world_thunk(ABI_HOOK_MALLOC, real_one);
		struct abi_thunk give = world_thunk(ABI_HOOK_FREE, real_free);
		struct abi_thunk resize = world_thunk(ABI_HOOK_REALLOC, real_two);
		give.usable_index = resize.usable_index = 1;
		world_config->usable[1] = (uint64_t)usable_and_fork;
		heaptap_hook_malloc(1, &alloc);
		struct abi_slot_head before = world_my_slot(0)->head;
		if (again)
			ck_assert_ptr_eq(heaptap_hook_realloc(block_b, 5, &resize), block_a);
		else
			heaptap_hook_free(block_b, &give);
		ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_RECORDING);
		ck_assert_uint_eq(world_my_slot(0)->head.committed, before.committed);
	}
}

HT_SUITE("agent/hooks")
