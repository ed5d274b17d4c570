/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture of a sample: which calls are sampled, what is recorded of these, and that all others
 * are only forwarded. The real entries run, so the thread pointer is the real one.
 */
#include "agent/sample.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

#include "agent/hooks.h"
#include "tests/unit/agent/world.h"

#define RATE	  4096u
#define GLIBC_TID 720u /* in its thread control block */
#define THREADS	  8u
#define EXCHANGES 3000u
#define NOT_YET	  (50ull * RATE) /* bytes to the next point */
#define NOW	  0ull
#define SEED	  0x6a09e667f3bcc909ull /* 64 bits of the fraction of the square root of 2 */
#define NEVER	  (1ull << 50)		/* bytes between points */

static struct {
	unsigned calls;
	uint64_t args[4];
	void *answer;
	void (*during)(void);
} real;

static uint8_t block_a[64], block_b[64];
static struct event events[WORLD_EVENTS_MAX];

static uint64_t own_thread_pointer(void)
{
	uint64_t ret;
	__asm__("mov %%fs:0, %0" : "=r"(ret));
	return ret;
}

static void *real_any(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	real.calls++;
	memcpy(real.args, (uint64_t[]){a, b, c, d}, sizeof(real.args));
	errno = 1234;
	if (real.during)
		real.during();
	return real.answer;
}

static int real_out(void **out, size_t alignment, size_t size)
{
	*out = real_any(0, alignment, size, 0);
	return 0;
}

static struct abi_thunk thunk(enum abi_hook hook)
{
	return world_thunk(
		hook, hook == ABI_HOOK_POSIX_MEMALIGN ? (void *)real_out : (void *)real_any);
}

static void setup(void)
{
	world_make();
	world_config->tid_offset = GLIBC_TID;
	sys_fake_thread_pointer = own_thread_pointer();
	memset(&real, 0, sizeof(real));
	real.answer = block_a;
	/* This call gives the thread its slot. At RATE one such call in 4,096 would be sampled. */
	struct abi_thunk self = thunk(ABI_HOOK_MALLOC);
	world_config->sample_bytes = NEVER;
	(void)heaptap_sample_malloc(0, &self);
	world_config->sample_bytes = RATE;
	struct abi_sampler *own = &world_my_slot(0)->head.sampler;
	/* The agent seeds from clock and thread, so that some test in ten thousand would fail by
	 * chance. */
	own->random = SEED;
	own->countdown = sample_distance(SEED, RATE);
	real.calls = 0;
}

static struct abi_sampler *sampler(void)
{
	return &world_my_slot(0)->head.sampler;
}

static size_t recorded(void)
{
	return world_events(world_my_slot(0), events, HT_ARRAY_SIZE(events));
}

static void *take(void *block)
{
	struct abi_thunk self = thunk(ABI_HOOK_MALLOC);
	real.answer = block;
	sampler()->countdown = NOW;
	ck_assert_ptr_eq(heaptap_sample_malloc(100, &self), block);
	return block;
}

/* --- the distances -------------------------------------------------------------------------------
 */

HT_TEST(distances_are_logarithms)
{
	ck_assert_uint_eq(sample_distance(1ull << 63, 1 << 20), 726817); /* log 2 */
	ck_assert_uint_eq(sample_distance(UINT64_MAX, 1 << 20), 0);
	ck_assert_uint_eq(sample_distance(1, 1000), 44361); /* 64 log 2 */
	uint64_t random = 1;
	for (unsigned i = 0; i < 20000; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		double want = -log(ldexp((double)random, -64)) * (1ull << 40);
		double got = (double)sample_distance(random, 1ull << 40);
		ck_assert_msg(fabs(got - want) < 1024, "%lx: %f, not %f", random, got, want);
	}
}

/* The agent's algorithm, written a second time: xorshift64*, and a countdown in bytes. */
struct oracle {
	uint64_t random;
	uint64_t left;
};

static bool oracle_takes(struct oracle *oracle, uint64_t bytes)
{
	if (oracle->left > bytes) {
		oracle->left -= bytes + 1;
		return false;
	}
	uint64_t x = oracle->random;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	oracle->random = x;
	oracle->left = sample_distance(x * 2685821657736338717ull, RATE);
	return true;
}

static uint64_t any_size(unsigned i)
{
	static const uint64_t sizes[] = {0, 1, 24, 100, 1000, 4095, 4096, 20000};
	return sizes[i * 2654435761u >> 29];
}

HT_TEST(each_call_is_taken_that_an_oracle_takes)
{
	setup();
	struct abi_thunk self[] = {
		thunk(ABI_HOOK_MALLOC), thunk(ABI_HOOK_CALLOC), thunk(ABI_HOOK_MEMALIGN)};
	struct oracle oracle = {sampler()->random, sampler()->countdown};
	uint64_t before = world_my_slot(0)->head.events, taken = 0;
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t size = any_size(i);
		if (i % 3 == 0)
			ck_assert_ptr_eq(heaptap_sample_malloc(size, &self[0]), block_a);
		else if (i % 3 == 1)
			ck_assert_ptr_eq(heaptap_sample_calloc(size, 1, &self[1]), block_a);
		else
			ck_assert_ptr_eq(heaptap_sample_memalign(8, size, &self[2]), block_a);
		taken += oracle_takes(&oracle, size);
		ck_assert_uint_eq(world_my_slot(0)->head.events, before + taken);
		ck_assert_uint_eq(sampler()->countdown, oracle.left);
	}
	ck_assert_uint_eq(real.calls, 5000);
	ck_assert_uint_gt(taken, 1000);
	ck_assert_uint_lt(taken, 4000);
}

/* Each run has the same random numbers, so no assertion depends on chance. */
HT_TEST(each_size_is_taken_as_often_as_it_should)
{
	enum { SIZES = 8, CALLS = 20000 };
	static const uint64_t sizes[SIZES] = {0, 1, 24, 100, 1000, 4095, 20000, 1 << 20};
	double chi_square = 0;
	unsigned taken[SIZES] = {0};
	setup();
	struct abi_thunk self = thunk(ABI_HOOK_MALLOC);
	for (unsigned i = 0; i < SIZES * CALLS; i++) {
		uint64_t before = world_my_slot(0)->head.events;
		(void)heaptap_sample_malloc(sizes[i % SIZES], &self);
		taken[i % SIZES] += world_my_slot(0)->head.events != before;
	}
	for (unsigned i = 0; i < SIZES; i++) {
		double p = -expm1(-((double)sizes[i] + 1) / RATE), want = CALLS * p;
		if (p > 0.999999)
			ck_assert_uint_eq(taken[i], CALLS);
		else
			chi_square += (taken[i] - want) * (taken[i] - want) / (want * (1 - p));
	}
	/* With seven degrees of freedom one value in ten thousand is larger. */
	ck_assert_msg(chi_square < 29.9, "%f", chi_square);
	ck_assert_msg(chi_square > 0.5, "%f", chi_square);
}

HT_TEST(a_countdown_that_went_wrong_starts_again)
{
	setup();
	struct abi_thunk self = thunk(ABI_HOOK_MALLOC);
	static const uint64_t wrong[] = {UINT64_MAX, 1ull << 63, 1ull << 62};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		sampler()->countdown = wrong[i];
		(void)heaptap_sample_malloc(SIZE_MAX, &self);
		(void)heaptap_sample_malloc(SIZE_MAX / 2 + 2, &self);
		(void)heaptap_sample_malloc(100, &self);
		ck_assert_uint_le(sampler()->countdown, 64 * RATE);
	}
}

/* --- what is forwarded ---------------------------------------------------------------------------
 */

static void check_call(const void *got, uint64_t a, uint64_t b, uint64_t c, uint64_t d, int count)
{
	const uint64_t want[] = {a, b, c, d};
	ck_assert_ptr_eq(got, block_a);
	ck_assert_uint_eq(real.calls, 1);
	ck_assert_mem_eq(real.args, want, 8 * (size_t)count);
	ck_assert_int_eq(errno, 1234);
	real.calls = 0;
	errno = 0;
}

static void *plain_one(size_t size)
{
	return real_any(size, 1, 0, 0);
}

static void *plain_two(size_t a, size_t b)
{
	return real_any(a, b, 2, 0);
}

/* The sampler calls the plain function for a sampled call, and forwards all others. */
static void call_news(uint64_t left)
{
	bool taken = left == NOW;
	struct abi_thunk self = thunk(ABI_NEW_BYTES);
	self.plain_index = 1;
	world_config->plain[1] = (uint64_t)plain_one;
	world_config->plain[2] = (uint64_t)plain_two;
	sampler()->countdown = left;
	check_call(heaptap_sample_new_bytes(100, 64, 7, &self), 100, taken ? 1 : 64, taken ? 0 : 7,
		0, 3);
	self.hook = ABI_NEW_ALIGNED;
	self.plain_index = 2;
	sampler()->countdown = left;
	check_call(heaptap_sample_new_aligned(11, 64, 7, &self), taken ? 64 : 11, taken ? 11 : 64,
		taken ? 2 : 7, 0, 3);
	self.hook = ABI_NEW_COUNT;
	sampler()->countdown = left;
	check_call(heaptap_sample_new_count(10, 11, 7, &self), 10, 11, taken ? 2 : 7, 0, 3);
}

/* Calls each function, with `left` bytes to the next sampling point. */
static void call_all(uint64_t left)
{
	struct abi_thunk self[ABI_ALLOCATOR_COUNT];
	void *out = block_b, *old = block_b;
	for (unsigned i = 0; i < ABI_ALLOCATOR_COUNT; i++)
		self[i] = thunk(i);
#define CHECK(name, id, count, a, b, c, d, ...)                                                    \
	sampler()->countdown = left;                                                               \
	check_call((void *)heaptap_sample_##name(__VA_ARGS__, &self[ABI_HOOK_##id]),               \
		(uint64_t)(a), (uint64_t)(b), c, d, count)
	CHECK(malloc, MALLOC, 1, 100, 0, 0, 0, 100);
	CHECK(valloc, VALLOC, 1, 100, 0, 0, 0, 100);
	CHECK(pvalloc, PVALLOC, 1, 100, 0, 0, 0, 100);
	CHECK(calloc, CALLOC, 2, 10, 11, 0, 0, 10, 11);
	CHECK(memalign, MEMALIGN, 2, 64, 11, 0, 0, 64, 11);
	CHECK(aligned_alloc, ALIGNED_ALLOC, 2, 64, 11, 0, 0, 64, 11);
	CHECK(realloc, REALLOC, 2, old, 11, 0, 0, old, 11);
	CHECK(reallocarray, REALLOCARRAY, 3, old, 11, 12, 0, old, 11, 12);
	CHECK(mallocx, MALLOCX, 2, 100, 6, 0, 0, 100, 6);
	CHECK(rallocx, RALLOCX, 3, old, 100, 6, 0, old, 100, 6);
	CHECK(xallocx, XALLOCX, 4, old, 100, 7, 6, old, 100, 7, 6);
#undef CHECK
	call_news(left);
	sampler()->countdown = left;
	ck_assert_int_eq(
		heaptap_sample_posix_memalign(&out, 64, 100, &self[ABI_HOOK_POSIX_MEMALIGN]), 0);
	check_call(out, 0, 64, 100, 0, 3);
	heaptap_sample_free(old, &self[ABI_HOOK_FREE]);
	check_call(block_a, (uint64_t)old, 0, 0, 0, 1);
	heaptap_sample_cfree(old, &self[ABI_HOOK_CFREE]);
	check_call(block_a, (uint64_t)old, 0, 0, 0, 1);
	heaptap_sample_dallocx(old, 6, &self[ABI_HOOK_DALLOCX]);
	check_call(block_a, (uint64_t)old, 6, 0, 0, 2);
	heaptap_sample_sdallocx(old, 100, 6, &self[ABI_HOOK_SDALLOCX]);
	check_call(block_a, (uint64_t)old, 100, 6, 0, 3);
	heaptap_sample_free_aligned_sized(old, 64, 100, &self[ABI_HOOK_FREE_ALIGNED_SIZED]);
	check_call(block_a, (uint64_t)old, 64, 100, 0, 3);
}

HT_TEST(skipped_calls_are_only_forwarded)
{
	setup();
	call_all(NOT_YET);
	ck_assert_uint_eq(recorded(), 0);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

HT_TEST(sampled_calls_are_recorded_with_function_and_size)
{
	static const uint64_t sizes[ABI_HOOK_COUNT] = {
		100, 110, 11, 0, 100, 11, 11, 100, 100, 132, 0, 100, 100, 100};
	setup();
	call_all(NOW);
	/* xallocx resizes block_b, which is then freed. */
	size_t count = recorded(), frees = 0;
	ck_assert_uint_eq(count, 16);
	for (size_t i = 0; i < count; i++) {
		frees += events[i].kind == ABI_EVENT_FREE;
		if (events[i].kind == ABI_EVENT_FREE)
			continue;
		ck_assert_int_eq(events[i].kind, ABI_EVENT_ALLOC);
		ck_assert_uint_eq(events[i].size, sizes[events[i].hook]);
		ck_assert_uint_eq(events[i].addr,
			(uint64_t)(events[i].hook == ABI_HOOK_XALLOCX ? block_b : block_a));
	}
	ck_assert_uint_eq(frees, 1);
}

HT_TEST(a_forked_child_takes_nothing_and_forgets_nothing)
{
	setup();
	take(block_b);
	world_state->alive = ABI_FORKED;
	struct abi_sampler before = *sampler();
	uint64_t committed = world_my_slot(0)->head.committed;
	real.answer = block_a;
	real.calls = 0;
	struct abi_thunk self[] = {thunk(ABI_HOOK_MALLOC), thunk(ABI_HOOK_FREE)};
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_ptr_eq(heaptap_sample_malloc(RATE, &self[0]), block_a);
	heaptap_sample_free(block_b, &self[1]);
	ck_assert_uint_eq(real.calls, 1001);
	ck_assert_mem_eq(sampler(), &before, sizeof(before));
	ck_assert_uint_eq(world_my_slot(0)->head.committed, committed);
	world_state->alive = ABI_ALIVE;
	ck_assert(sample_remove(world_config, (uint64_t)block_b));
}

HT_TEST(nothing_is_recorded_where_recording_has_ended)
{
	setup();
	world_state->alive = ABI_MUTE;
	size_t before = recorded();
	call_all(NOW);
	ck_assert_uint_eq(recorded(), before);
}

static struct abi_thunk inner;
static uint64_t inner_left;

static HT_NOINLINE void call_inner(void)
{
	real.during = NULL;
	sampler()->countdown = inner_left;
	ck_assert_ptr_eq(heaptap_sample_calloc(1, 10, &inner), block_a);
	__asm__ volatile(""); /* no tail call */
}

HT_TEST(nested_allocator_calls_are_part_of_the_call)
{
	for (int far = 0; far < 2; far++) {
		setup();
		struct abi_slot_head *head = &world_my_slot(0)->head;
		head->stack_lo = (uint64_t)&head - 65536;
		head->stack_hi = ht_align_down((uint64_t)&head, HT_PAGE_BYTES) + HT_PAGE_BYTES;
		head->bounds_incarnation = head->incarnation;
		sys_fake.readable = (const uint8_t *)head->stack_lo;
		sys_fake.readable_bytes = head->stack_hi - head->stack_lo;
		inner = thunk(ABI_HOOK_CALLOC);
		inner_left = NOW;
		inner.real_lo = far ? 1 : (uint64_t)call_inner;
		inner.real_len = 4096;
		struct abi_thunk self = thunk(ABI_HOOK_MALLOC);
		sampler()->countdown = NOT_YET;
		real.during = call_inner;
		(void)heaptap_sample_malloc(100, &self);
		ck_assert_uint_eq(real.calls, 2);
		ck_assert_uint_eq(recorded(), far);
		ck_assert_uint_le(sampler()->countdown, 64 * RATE);
	}
}

static void call_inner_realloc(void)
{
	real.during = NULL;
	sampler()->countdown = 7;
	ck_assert_ptr_eq(heaptap_sample_realloc(block_b, 100, &inner), block_a);
	__asm__ volatile(""); /* no tail call */
}

/* The nested call takes the sampling point that it reaches, so the next call does not get it. */
HT_TEST(nested_calls_of_a_watched_call_are_not_sampled)
{
	setup();
	inner = thunk(ABI_HOOK_REALLOC);
	inner.real_lo = (uint64_t)call_inner_realloc;
	inner.real_len = 4096;
	struct abi_thunk self = thunk(ABI_HOOK_REALLOCARRAY);
	struct oracle oracle = {sampler()->random, 7};
	ck_assert(oracle_takes(&oracle, 100));
	sampler()->countdown = NOT_YET;
	real.during = call_inner_realloc;
	(void)heaptap_sample_reallocarray(NULL, 10, 10, &self);
	ck_assert_uint_eq(real.calls, 2);
	ck_assert_uint_eq(recorded(), 0);
	ck_assert_uint_eq(sampler()->countdown, oracle.left);
}

/* --- frees ---------------------------------------------------------------------------------------
 */

static void check_free_is_recorded(void)
{
	ck_assert_uint_eq(recorded(), 2);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IN_REAL);
	ck_assert(!sample_remove(world_config, (uint64_t)block_a));
}

HT_TEST(the_free_of_a_sample_is_recorded_before_it_is_done)
{
	setup();
	struct abi_thunk self = thunk(ABI_HOOK_FREE);
	take(block_a);
	real.during = check_free_is_recorded;
	heaptap_sample_free(block_a, &self);
	real.during = NULL;
	heaptap_sample_free(block_a, &self);
	ck_assert_uint_eq(recorded(), 2);
	ck_assert_int_eq(events[0].kind, ABI_EVENT_ALLOC);
	ck_assert_int_eq(events[1].kind, ABI_EVENT_FREE);
	ck_assert_uint_eq(events[1].addr, (uint64_t)block_a);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

HT_TEST(a_neighbour_of_a_sample_is_freed_without_a_word)
{
	setup();
	struct abi_thunk self = thunk(ABI_HOOK_FREE);
	take(block_a);
	heaptap_sample_free(block_a + 16, &self);
	heaptap_sample_free(NULL, &self);
	ck_assert_uint_eq(recorded(), 1);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
	ck_assert(sample_remove(world_config, (uint64_t)block_a));
}

struct realloc_case {
	bool old_is_sample, is_taken;
	size_t size;
	void *answer;
	enum abi_event_kind kinds[3]; /* after the ALLOC of the old one */
	bool old_stays, new_is_sample;
};

HT_TEST(a_realloc_forgets_the_old_block_and_draws_for_the_new_one)
{
	const struct realloc_case cases[] = {
		{false, false, 50, block_b, {0}, false, false},
		{false, true, 50, block_b, {ABI_EVENT_ALLOC}, false, true},
		{true, false, 50, block_b, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_FREED},
			false, false},
		{true, true, 50, block_b, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_END}, false,
			true},
		{true, true, 50, block_a, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_END}, true,
			false},
		{true, false, 50, block_a, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_FREED},
			false, false},
		{true, true, 50, NULL, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_FAIL}, true,
			false},
		{true, false, 50, NULL, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_FAIL}, true,
			false},
		{true, true, 0, NULL, {ABI_EVENT_REALLOC_BEGIN, ABI_EVENT_REALLOC_FREED}, false,
			false},
		{false, true, 50, NULL, {0}, false, false},
		{false, true, 0, NULL, {0}, false, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		const struct realloc_case *c = &cases[i];
		setup();
		struct abi_thunk self = thunk(ABI_HOOK_REALLOC);
		if (c->old_is_sample)
			take(block_a);
		sampler()->countdown = c->is_taken ? NOW : NOT_YET;
		real.answer = c->answer;
		ck_assert_ptr_eq(heaptap_sample_realloc(block_a, c->size, &self), c->answer);
		size_t at = c->old_is_sample, count = recorded();
		for (const enum abi_event_kind *kind = c->kinds; *kind; kind++)
			ck_assert_msg(at < count && events[at++].kind == *kind, "case %zu", i);
		ck_assert_msg(at == count, "case %zu", i);
		ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
		ck_assert_msg(sample_remove(world_config, (uint64_t)block_a) == c->old_stays,
			"case %zu", i);
		ck_assert_msg(sample_remove(world_config, (uint64_t)block_b) == c->new_is_sample,
			"case %zu", i);
	}
}

/* --- the set -------------------------------------------------------------------------------------
 */

HT_TEST(a_sample_without_room_is_lost_and_counted)
{
	setup();
	memset(world_image + ABI_SAMPLES_OFF, 0x55,
		ABI_SAMPLE_LINES * sizeof(struct abi_sample_line));
	take(block_a);
	ck_assert_uint_eq(recorded(), 0);
	ck_assert_uint_eq(world_control->samples_lost, 1);
	ck_assert_uint_eq(world_filter_sum(), 0);
	ck_assert_uint_eq(world_my_slot(0)->head.state, ABI_SLOT_IDLE);
}

/* --- threads -------------------------------------------------------------------------------------
 */

static void *exchanged[64];
static pthread_barrier_t barrier;

static void *exchange_blocks(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct abi_thunk self[] = {
		world_thunk(ABI_HOOK_MALLOC, malloc), world_thunk(ABI_HOOK_FREE, free)};
	sys_fake_thread_pointer = own_thread_pointer();
	for (unsigned i = 0; i < EXCHANGES; i++) {
		unsigned random = (unsigned)rand_r(&seed);
		void *block = heaptap_sample_malloc(random % 1024, &self[0]);
		heaptap_sample_free(exchange(&exchanged[random / 1024 % 64], block), &self[1]);
	}
	/* No thread ends early: the C library would give its control block to the next thread. */
	pthread_barrier_wait(&barrier);
	return NULL;
}

static int by_addr(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

HT_TEST(threads_free_the_blocks_of_others)
{
	pthread_t threads[THREADS];
	setup();
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, exchange_blocks, (void *)(i + 1));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	struct abi_thunk self = world_thunk(ABI_HOOK_FREE, free);
	for (unsigned i = 0; i < 64; i++)
		heaptap_sample_free(exchange(&exchanged[i], NULL), &self);
	ck_assert_uint_eq(world_messages, 0);
	ck_assert_uint_eq(world_filter_sum(), 0);
	size_t count = 0;
	for (unsigned i = 0; i < WORLD_SLOTS; i++)
		count += world_events(&world_slots[i], events + count, WORLD_EVENTS_MAX - count);
	/* 24,000 blocks of 512 bytes on average: some 2,800 are sampled. */
	ck_assert_uint_gt(count, 4000);
	qsort(events, count, sizeof(events[0]), by_addr);
	int balance = 0;
	for (size_t i = 0; i < count; i++) {
		balance += events[i].kind == ABI_EVENT_ALLOC ? 1 : -1;
		if (i + 1 == count || events[i + 1].addr != events[i].addr)
			ck_assert_int_eq(balance, 0);
	}
}

HT_SUITE("agent/sample")
