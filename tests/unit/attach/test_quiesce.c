/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/quiesce.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/thread/preempted.h"
#include "attach/thread/proc_where.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/agentcode.h"

#define ENTRY  (THUNK + 3 * ABI_THUNK_BYTES + ABI_THUNK_ENTRY)
#define REAL   0x5a5a00077000ull
#define WAITS  8u
#define FAR_NS (60 * CLOCK_NS_PER_S)

#define SPARED_NS (20 * CLOCK_NS_PER_MS)

static struct shared {
	volatile uint64_t r12, word, turns;
	volatile unsigned stop;
	atomic_uint waiting, interrupted;
} * shared;

static struct proc proc;
static enum quiesce_books books;

static enum quiesce_books ask_books(void *context, const struct proc *of, pid_t tid)
{
	(void)context, (void)of, (void)tid;
	return books;
}

static raddr_t real_of(void *context, raddr_t entry)
{
	(void)context;
	return entry == ENTRY ? REAL : 0;
}

static struct quiesce *start_until(
	const struct child *child, bool rewrite, uint64_t deadline_mono_ns)
{
	static struct quiesce_options options;
	struct quiesce *quiesce;
	ck_no_err(proc_open(child->pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	options = (struct quiesce_options){.proc = &proc,
		.ranges = agentcode,
		.rewrite = rewrite,
		.real = real_of,
		.books = ask_books,
		.deadline_mono_ns = deadline_mono_ns};
	ck_no_err(quiesce_create(&options, &quiesce));
	return quiesce;
}

static struct quiesce *start(const struct child *child, bool rewrite)
{
	return start_until(child, rewrite, 0);
}

static struct quiesce_report pass(struct quiesce *quiesce)
{
	struct quiesce_report report;
	ck_no_err(quiesce_pass(quiesce, &report));
	return report;
}

/* Makes passes until one has stopped a thread: a running thread is first looked at, then it runs,
 * then it is stopped. Returns the report of the last pass. */
static struct quiesce_report pass_running(struct quiesce *quiesce)
{
	struct quiesce_report report;
	do
		report = pass(quiesce);
	while (report.stopped == 0);
	return report;
}

static void finish(struct quiesce *quiesce, struct child *child)
{
	quiesce_destroy(quiesce);
	proc_close(&proc);
	child_kill(child);
}

static void check_left(struct quiesce_report report, pid_t tid)
{
	ck_assert_uint_eq(report.left, tid ? 1 : 0);
	if (!tid)
		return;
	ck_assert_int_eq(report.tid, tid);
	ck_assert_ptr_nonnull(report.why);
}

static void setup(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	books = QUIESCE_UNKNOWN;
}

/* --- blocked threads -----------------------------------------------------------------------------
 */

HT_TEST(a_sleeper_outside_is_seen_without_a_stop)
{
	setup();
	struct child child = child_fork(outside, NULL);
	child_sleeping(&child);
	struct quiesce *quiesce = start(&child, false);
	struct quiesce_report report = pass(quiesce);
	check_left(report, 0);
	ck_assert_uint_eq(report.threads, 1);
	ck_assert_uint_eq(report.stopped, 0);
	finish(quiesce, &child);
}

/* Checks that no pass finds the thread outside, although the judge can unwind its stack. */
static void check_never_outside(void (*body)(const void *arg))
{
	struct child child = child_fork(body, NULL);
	child_sleeping(&child);
	struct quiesce *quiesce = start(&child, false);
	for (unsigned i = 0; i < 6; i++)
		check_left(pass(quiesce), child.pid);
	ck_assert_uint_gt(pass(quiesce).stopped, 0);
	finish(quiesce, &child);
}

HT_TEST(a_frame_of_ours_is_never_outside)
{
	setup();
	check_never_outside(in_frame);
}

HT_TEST(a_pc_of_ours_is_inside_whatever_the_books_say)
{
	setup();
	books = QUIESCE_IDLE;
	check_never_outside(at_pc);
}

HT_TEST(a_signal_frame_into_ours_is_inside_whatever_the_books_say)
{
	setup();
	books = QUIESCE_IDLE;
	check_never_outside(in_handler);
}

HT_TEST(the_books_decide_about_stale_words)
{
	setup();
	struct child child = child_fork(with_stale_word, NULL);
	child_sleeping(&child);
	struct quiesce *quiesce = start(&child, false);
	books = QUIESCE_INSIDE;
	check_left(pass(quiesce), child.pid);
	books = QUIESCE_UNKNOWN;
	check_left(pass(quiesce), child.pid);
	books = QUIESCE_IDLE;
	check_left(pass(quiesce), 0);
	ck_assert_uint_eq(pass(quiesce).stopped, 0);
	finish(quiesce, &child);
}

static void check_unwinder_decides(void (*body)(const void *arg))
{
	struct child child = child_fork(body, NULL);
	child_sleeping(&child);
	struct quiesce *quiesce = start(&child, false);
	struct quiesce_report report;
	unsigned passes = 0;
	do
		report = pass(quiesce);
	while (report.left && ++passes < 10);
	check_left(report, 0);
	ck_assert_uint_ge(passes, 3);
	ck_assert_uint_eq(report.stopped, 1);
	ck_assert_uint_gt(report.stop_max_ns, 0);
	child_sleeping(&child);
	finish(quiesce, &child);
}

HT_TEST(an_unwinder_decides_where_there_are_no_books)
{
	setup();
	check_unwinder_decides(with_stale_word);
}

/* Signal frames that lead to more stacks than heaptap reads: an unread stack may hold a PC. */
static void with_many_stacks(const void *arg)
{
	(void)arg;
	struct {
		raddr_t rsp, rip;
		uint64_t flags, segments;
	} volatile frame[9];
	for (size_t i = 0; i < HT_ARRAY_SIZE(frame); i++) {
		uint8_t *stack = mmap(NULL, 2 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(stack, HT_PAGE_BYTES, PROT_NONE);
		frame[i].rsp = (raddr_t)(stack + HT_PAGE_BYTES + 512);
		frame[i].rip = (raddr_t)child_wait;
		frame[i].flags = 0x246;
		frame[i].segments = 0x002b000000000033;
	}
	child_ready((long)frame[0].flags);
	child_wait();
}

HT_TEST(unread_thread_may_be_inside)
{
	setup();
	books = QUIESCE_IDLE;
	check_unwinder_decides(with_many_stacks);
}

static void in_vfork(const void *arg)
{
	(void)arg;
	child_ready(0);
	if (vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
}

HT_TEST(a_thread_in_vfork_is_inside)
{
	setup();
	struct child child = child_fork(in_vfork, NULL);
	struct proc_status status;
	struct quiesce *quiesce = start(&child, false);
	do
		ck_no_err(proc_status(&proc, 0, &status));
	while (status.state != 'D');
	check_left(pass(quiesce), child.pid);
	finish(quiesce, &child);
}

/* --- running threads
 * ------------------------------------------------------------------------------ */

/* Spins with an entry in r12 and in a word of its stack, and shows both. */
void spin_with(uint64_t entry, struct shared *show);

__asm__(".text\n"
	"spin_with:\n"
	"	push %r12\n"
	"	push %rdi\n"
	"	mov %rdi, %r12\n"
	"1:	mov %r12, (%rsi)\n"
	"	mov (%rsp), %rax\n"
	"	mov %rax, 8(%rsi)\n"
	"	incq 16(%rsi)\n"
	"	jmp 1b\n");

_Static_assert(offsetof(struct shared, turns) == 16, "as the assembly has it");

static void spin(const void *arg)
{
	child_ready(0);
	spin_with(*(const uint64_t *)arg, shared);
}

static void wait_for_turns(void)
{
	for (uint64_t turns = shared->turns; shared->turns < turns + 2;)
		sched_yield();
}

HT_TEST(a_running_thread_is_stopped_once)
{
	static const uint64_t other = 0x1234;
	setup();
	struct child child = child_fork(spin, &other);
	struct proc_status status;
	wait_for_turns();
	struct quiesce *quiesce = start(&child, true);
	struct quiesce_report report = pass_running(quiesce);
	check_left(report, 0);
	ck_assert_uint_eq(report.stopped, 1);
	ck_assert_uint_eq(report.rewritten, 0);
	ck_assert_uint_eq(pass(quiesce).stopped, 1);
	wait_for_turns();
	ck_no_err(proc_status(&proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	finish(quiesce, &child);
}

HT_TEST(function_pointers_are_rewritten)
{
	static const uint64_t entry = ENTRY;
	setup();
	struct child child = child_fork(spin, &entry);
	wait_for_turns();
	ck_assert_uint_eq(shared->r12, ENTRY);
	ck_assert_uint_eq(shared->word, ENTRY);
	struct quiesce *quiesce = start(&child, true);
	struct quiesce_report report = pass_running(quiesce);
	check_left(report, 0);
	ck_assert_uint_ge(report.rewritten, 3); /* rdi, r12, the word */
	wait_for_turns();
	ck_assert_uint_eq(shared->r12, REAL);
	ck_assert_uint_eq(shared->word, REAL);
	finish(quiesce, &child);
}

HT_TEST(function_pointers_are_counted)
{
	static const uint64_t entry = ENTRY;
	setup();
	struct child child = child_fork(spin, &entry);
	wait_for_turns();
	struct quiesce *quiesce = start(&child, false);
	struct quiesce_report report = pass_running(quiesce);
	ck_assert_uint_eq(report.rewritten, 0);
	ck_assert_uint_ge(report.entries_left, 1);
	wait_for_turns();
	ck_assert_uint_eq(shared->r12, ENTRY);
	finish(quiesce, &child);
}

/* A stop would find the thread where it was preempted, in the hook. Once it has run it is stopped,
 * even if the agent's records say that it is inside. */
HT_TEST(preempted_thread_in_a_hook_is_not_stopped)
{
	static const uint64_t other = 0x1234;
	setup();
	struct child child = child_fork(spin, &other), rival = child_fork(spin, &other);
	child_share_core(child.pid, rival.pid);
	wait_for_turns();
	books = QUIESCE_INSIDE;
	struct quiesce *quiesce = start(&child, false);
	while (!preempted_is(&proc, child.pid))
		sched_yield();
	struct quiesce_report report = pass(quiesce);
	check_left(report, child.pid);
	ck_assert_uint_eq(report.stopped, 0);
	report = pass_running(quiesce);
	check_left(report, 0);
	ck_assert_uint_eq(report.stopped, 1);
	finish(quiesce, &child);
	child_kill(&rival);
}

static void *end_on_demand(void *arg)
{
	while (!shared->stop)
		sched_yield();
	return arg;
}

static void *sleep_for_good(void *arg)
{
	pause();
	return arg;
}

static void spin_beside_a_thread(const void *arg)
{
	pthread_t thread;
	pthread_create(&thread, NULL, sleep_for_good, NULL);
	spin(arg);
}

/* While the main thread is stopped, signals to the process go to the other thread, and the main
 * thread may be about to sleep. */
HT_TEST(a_main_thread_beside_others_is_not_stopped_at_once)
{
	static const uint64_t other = 0x1234;
	setup();
	struct child child = child_fork(spin_beside_a_thread, &other);
	wait_for_turns();
	uint64_t before_ns = clock_mono_ns();
	struct quiesce *quiesce = start(&child, false);
	while (pass(quiesce).left)
		;
	ck_assert_uint_ge(clock_mono_ns() - before_ns, SPARED_NS);
	finish(quiesce, &child);
}

/* On busy cores detach reaches its last step late, and then has time for one look. */
HT_TEST(when_the_time_is_over_one_look_will_do)
{
	static const uint64_t other = 0x1234;
	setup();
	struct child child = child_fork(spin_beside_a_thread, &other);
	wait_for_turns();
	struct quiesce *quiesce = start_until(&child, false, clock_mono_ns());
	struct quiesce_report report = pass(quiesce);
	check_left(report, 0);
	ck_assert_uint_ge(report.stopped, 1);
	finish(quiesce, &child);
}

static void with_threads(const void *arg)
{
	pthread_t thread[4];
	(void)arg;
	for (size_t i = 0; i < HT_ARRAY_SIZE(thread); i++)
		pthread_create(&thread[i], NULL, end_on_demand, NULL);
	child_ready(0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	child_wait();
}

HT_TEST(threads_that_end_are_outside)
{
	setup();
	struct child child = child_fork(with_threads, NULL);
	struct quiesce *quiesce = start(&child, false);
	shared->stop = true;
	struct proc_tids tids = {0};
	do {
		proc_tids_deinit(&tids);
		ck_no_err(proc_tids_read(&proc, &tids));
	} while (tids.count > 1);
	proc_tids_deinit(&tids);
	child_sleeping(&child);
	struct quiesce_report report = pass(quiesce);
	ck_assert_uint_eq(report.threads, 5);
	check_left(report, 0);
	ck_assert_uint_eq(report.stopped, 0);
	finish(quiesce, &child);
}

static void *wait_for_events(void *arg)
{
	int *epoll_fd = arg;
	struct epoll_event event;
	shared->waiting++;
	while (!shared->stop)
		if (epoll_wait(*epoll_fd, &event, 1, -1) < 0)
			shared->interrupted++;
	return NULL;
}

static void with_waits(const void *arg)
{
	pthread_t thread;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	(void)arg;
	for (unsigned i = 0; i < WAITS; i++)
		pthread_create(&thread, NULL, wait_for_events, &epoll_fd);
	while (shared->waiting < WAITS)
		sched_yield();
	child_ready(0);
	child_wait();
}

/* Makes all further reads of the target's memory fail in the worker. */
static enum quiesce_books fail_from_now_on(void *context, const struct proc *of, pid_t tid)
{
	pid_t *test = context;
	(void)of, (void)tid;
	if (getpid() != *test)
		close(proc.mem_fd);
	return QUIESCE_IDLE;
}

static void wait_until_asleep(void)
{
	struct proc_tids tids;
	ck_no_err(proc_tids_read(&proc, &tids));
	for (size_t i = 0; i < tids.count; i++) {
		struct proc_syscall call = {0};
		while (call.nr != SYS_epoll_wait && call.nr != SYS_pause)
			ck_no_err(proc_syscall_read(&proc, tids.tid[i], &call));
	}
	proc_tids_deinit(&tids);
}

HT_TEST(threads_that_were_asked_are_let_go_in_order_whatever_fails)
{
	pid_t self = getpid();
	struct quiesce_report report;
	struct quiesce *quiesce;
	setup();
	struct child child = child_fork(with_waits, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	wait_until_asleep();
	struct quiesce_options options = {.proc = &proc,
		.ranges = agentcode,
		.rewrite = true,
		.real = real_of,
		.books = fail_from_now_on,
		.context = &self};
	ck_no_err(quiesce_create(&options, &quiesce));
	ck_err(quiesce_pass(quiesce, &report), HT_ERR_SYS);
	wait_until_asleep();
	ck_assert_uint_eq(shared->interrupted, 0);
	finish(quiesce, &child);
}

HT_TEST(a_process_that_is_gone)
{
	setup();
	struct child child = child_fork(outside, NULL);
	struct quiesce *quiesce = start(&child, false);
	struct quiesce_report report;
	child_kill(&child);
	ck_err(quiesce_pass(quiesce, &report), HT_ERR_TARGET_GONE);
	quiesce_destroy(quiesce);
	quiesce_destroy(NULL);
	proc_close(&proc);
}

HT_TEST(unknown_stack_counts_as_inside)
{
	setup();
	check_never_outside(lost);
	check_never_outside(behind_unknown);
}

HT_SUITE("attach/proof/quiesce")
