/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/prove.h"

#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define THUNK	0x5a5a00020000ull
#define ENTRY	(THUNK + 3 * ABI_THUNK_BYTES + ABI_THUNK_ENTRY)
#define REAL	0x5a5a00077000ull
#define SLOW_NS (300 * CLOCK_NS_PER_MS) /* longer than the proof waits for pointers that stay */
#define FAR_NS	(60 * CLOCK_NS_PER_S)

static uint64_t kept;
static unsigned passes;

static enum quiesce_books no_books(void *context, const struct proc *of, pid_t tid)
{
	(void)context, (void)of, (void)tid;
	return QUIESCE_IDLE;
}

static raddr_t real_of(void *context, raddr_t entry)
{
	(void)context;
	return entry == ENTRY ? REAL : 0;
}

/* The first pass takes long, as the search of a large target does. */
static void take_long(void *context)
{
	(void)context;
	if (passes++ == 0)
		clock_sleep_ns(SLOW_NS);
}

static void with_pointer_on_stack(const void *arg)
{
	volatile uint64_t word = *(const uint64_t *)arg;
	child_ready((long)&word);
	child_wait();
}

static void with_pointer_kept(const void *arg)
{
	*(volatile uint64_t *)&kept = *(const uint64_t *)arg;
	child_ready((long)&kept);
	child_wait();
}

struct scene {
	struct child child;
	struct proc proc;
	struct prove_report report;
};

static void prove(struct scene *scene, void (*body)(const void *arg), uint64_t deadline_mono_ns)
{
	static const uint64_t entry = ENTRY;
	passes = 0;
	scene->child = child_fork(body, &entry);
	child_sleeping(&scene->child);
	ck_no_err(proc_open(scene->child.pid, &scene->proc));
	ck_no_err(proc_open_mem(&scene->proc));
	const struct prove options = {
		.threads = {.proc = &scene->proc,
			.ranges = {.thunk_lo = THUNK, .thunk_hi = THUNK + HT_PAGE_BYTES},
			.real = real_of,
			.books = no_books},
		.deadline_mono_ns = deadline_mono_ns,
		.pump = take_long};
	ck_no_err(prove_forgotten(&options, &scene->report));
	ck_assert(scene->report.outside);
}

static uint64_t word_of(const struct scene *scene)
{
	uint64_t word;
	ck_no_err(memory_read_u64(&scene->proc, (raddr_t)scene->child.value, &word));
	return word;
}

static void finish(struct scene *scene)
{
	proc_close(&scene->proc);
	child_kill(&scene->child);
}

HT_TEST(pointers_on_stacks_are_gone_however_long_a_round_takes)
{
	struct scene scene;
	prove(&scene, with_pointer_on_stack, clock_mono_ns() + FAR_NS);
	ck_assert_uint_eq(scene.report.pointers, 0);
	ck_assert_uint_eq(word_of(&scene), REAL);
	finish(&scene);
}

HT_TEST(kept_addresses_are_counted_not_awaited)
{
	struct scene scene;
	prove(&scene, with_pointer_kept, clock_mono_ns() + FAR_NS);
	ck_assert_uint_eq(scene.report.pointers, 1);
	ck_assert_uint_eq(scene.report.pointer_at, scene.child.value);
	ck_assert_uint_eq(word_of(&scene), ENTRY);
	finish(&scene);
}

/* A round that begins but does not end would weaken the result of the round before. */
HT_TEST(no_round_that_would_end_after_the_deadline)
{
	struct scene scene;
	prove(&scene, with_pointer_on_stack, clock_mono_ns());
	ck_assert_uint_eq(passes, 1);
	ck_assert_uint_eq(scene.report.pointers, 1);
	ck_assert_uint_eq(scene.report.threads.rewritten, 1);
	finish(&scene);
}

HT_SUITE("attach/proof/prove")
