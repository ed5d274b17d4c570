/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/recheck.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/machine.h"

#define FAR_NS	   (60 * CLOCK_NS_PER_S)
#define FEW_BYTES  4096u
#define SLACK	   0x5a5a00010000ull /* nothing is mapped there */
#define SLACK_END  (SLACK + sizeof(((struct remote_slack *)0)->original))
#define USER32_CS  0x23
#define SPIN_BYTES 2u
#define STEP_FLAG  0x100u /* TF */

/* Shared with the children of a test. */
static struct shared {
	volatile uint64_t turns;
	volatile pid_t tid;
	volatile char selector;
} * shared;

static struct proc proc;
static struct remote_slack slack;
static const struct remote_remains leaving = {0};

static struct child start(void (*body)(const void *arg), const void *arg)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	struct child child = child_fork(body, arg);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	slack = (struct remote_slack){.addr = SLACK, .bytes = sizeof(slack.original)};
	return child;
}

static void finish(struct child *child)
{
	proc_close(&proc);
	child_kill(child);
}

static struct tracee stop(pid_t tid)
{
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(tracee_stop(tid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	return tracee;
}

static enum recheck_verdict judge(struct tracee *tracee, const struct remote_remains *remains)
{
	enum recheck_verdict verdict;
	ck_no_err(recheck_judge(&proc, tracee, &slack, remains, &verdict));
	return verdict;
}

/* Stops the thread, judges it, and lets it go. */
static enum recheck_verdict judge_of(pid_t tid, const struct remote_remains *remains)
{
	struct tracee tracee = stop(tid);
	enum recheck_verdict verdict = judge(&tracee, remains);
	ck_no_err(tracee_release(&tracee));
	return verdict;
}

/* --- where the thread stands -------------------------------------------------------------------
 */

HT_TEST(a_thread_in_the_stubs_place_is_elsewhere)
{
	struct child child = start(child_idle, NULL);
	struct tracee tracee = stop(child.pid);
	raddr_t pc = tracee.regs.rip;
	ck_assert_int_eq(judge(&tracee, NULL), HELD_FIT);
	slack.addr = pc;
	ck_assert_int_eq(judge(&tracee, NULL), HELD_ELSEWHERE);
	ck_assert_int_eq(judge(&tracee, &leaving), HELD_ELSEWHERE);
	slack.addr = pc - slack.bytes + 1;
	ck_assert_int_eq(judge(&tracee, NULL), HELD_ELSEWHERE);
	slack.addr = pc - slack.bytes;
	ck_assert_int_eq(judge(&tracee, NULL), HELD_FIT);
	slack.addr = pc + 1;
	ck_assert_int_eq(judge(&tracee, NULL), HELD_FIT);
	ck_no_err(tracee_release(&tracee));
	finish(&child);
}

static void with_another_process(const void *arg)
{
	(void)arg;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
	shared->tid = pid;
	child_ready(0);
	child_wait();
}

/* The TID was a thread's and is another process's now, even one with the same file table. */
HT_TEST(a_thread_of_another_process_is_elsewhere)
{
	struct child child = start(with_another_process, NULL);
	ck_assert_int_gt(shared->tid, 0);
	ck_assert_int_eq(judge_of(shared->tid, NULL), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_of(child.pid, NULL), HELD_FIT);
	finish(&child);
}

/* Wine and other 64-bit programs run 32-bit code. */
static void run_32_bit_code(const void *arg)
{
	static const uint8_t spin[SPIN_BYTES] = {0xeb, 0xfe}; /* jmp . */
	uint8_t *code = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	(void)arg;
	if (code == MAP_FAILED)
		_exit(1);
	memcpy(code, spin, sizeof(spin));
	child_ready(0);
	__asm__ volatile("push %0\n"
			 "push %1\n"
			 "lretq\n" ::"r"((uint64_t)USER32_CS),
			 "r"(code)
			 : "memory");
}

/* Waits until the thread runs 32-bit code. Returns false if the machine runs none. */
static bool is_there(pid_t pid)
{
	struct tracee tracee;
	enum tracee_result result;
	struct user_regs_struct regs = {0};
	while (regs.cs != USER32_CS) {
		ck_no_err(tracee_stop(pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
		if (result != TRACEE_STOPPED)
			return false;
		/* PTRACE_GETREGSET would give the 32-bit registers. */
		ck_assert_int_eq(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
		ck_no_err(tracee_release(&tracee));
	}
	return true;
}

/* The stub is 64-bit code. */
HT_TEST(a_thread_in_code_of_32_bits_is_elsewhere)
{
	if (!machine_runs_32_bits("held"))
		return;
	struct child child = start(run_32_bit_code, NULL);
	if (is_there(child.pid))
		ck_assert_int_eq(judge_of(child.pid, NULL), HELD_ELSEWHERE);
	else
		printf("skipped: held: no code of 32 bits runs here\n");
	finish(&child);
}

static void pass(int sig)
{
	(void)sig;
}

static void sleep_stepping(const void *arg)
{
	(void)arg;
	signal(SIGTRAP, pass);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | STEP_FLAG);
	child_ready(0);
	for (;;)
		pause();
}

/* Each of the stub's instructions would raise SIGTRAP while it is blocked, which kills the process.
 */
HT_TEST(a_thread_that_steps_itself_is_elsewhere)
{
	struct child child = start(sleep_stepping, NULL);
	while (child_state(child.pid) != 'S')
		sched_yield();
	ck_assert_int_eq(judge_of(child.pid, NULL), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_of(child.pid, &leaving), HELD_ELSEWHERE);
	finish(&child);
}

static void sleep_handling(const void *arg)
{
	sigset_t *blocked = (sigset_t *)arg;
	signal(SIGSEGV, pass);
	signal(SIGSYS, pass);
	sigprocmask(SIG_BLOCK, blocked, NULL);
	child_ready(0);
	for (;;)
		pause();
}

/* The signal comes when the thread is stopped, as if its last instruction had raised it. */
static enum recheck_verdict judge_with(int signal, const sigset_t *blocked)
{
	struct child child = start(sleep_handling, blocked);
	struct tracee tracee = stop(child.pid);
	ck_assert_int_eq(syscall(SYS_tgkill, child.pid, child.pid, signal), 0);
	enum recheck_verdict verdict = judge(&tracee, NULL);
	ck_assert_int_eq(judge(&tracee, &leaving), verdict);
	ck_no_err(tracee_release(&tracee));
	finish(&child);
	return verdict;
}

/* The signal's handler would look for the cause at the PC, which would be in the stub. */
HT_TEST(a_thread_that_has_raised_a_signal_is_elsewhere)
{
	sigset_t none, segv;
	sigemptyset(&none);
	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	ck_assert_int_eq(judge_with(SIGSEGV, &none), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_with(SIGSYS, &none), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_with(SIGSEGV, &segv), HELD_FIT);
	ck_assert_int_eq(judge_with(SIGCHLD, &none), HELD_FIT);
}

static void *keep_own_table(void *arg)
{
	if (unshare(CLONE_FILES))
		_exit(1);
	shared->tid = (pid_t)syscall(SYS_gettid);
	child_wait();
	return arg;
}

static void with_two_tables(const void *arg)
{
	pthread_t thread;
	(void)arg;
	pthread_create(&thread, NULL, keep_own_table, NULL);
	while (!shared->tid)
		sched_yield();
	child_ready(0);
	child_wait();
}

HT_TEST(the_table_of_descriptors_is_asked_of_the_held_thread)
{
	struct child child = start(with_two_tables, NULL);
	const struct remote_remains of_thread = {.table = shared->tid};
	ck_assert_int_eq(judge_of(child.pid, NULL), HELD_FIT);
	ck_assert_int_eq(judge_of(shared->tid, NULL), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_of(shared->tid, &leaving), HELD_ELSEWHERE);
	ck_assert_int_eq(judge_of(shared->tid, &of_thread), HELD_FIT);
	ck_assert_int_eq(judge_of(child.pid, &of_thread), HELD_ELSEWHERE);
	finish(&child);
}

/* --- which calls the thread may make -----------------------------------------------------------
 */

static void limit_files(const void *arg)
{
	const struct rlimit few = {FEW_BYTES, FEW_BYTES};
	(void)arg;
	if (setrlimit(RLIMIT_FSIZE, &few))
		_exit(1);
	child_ready(0);
	child_wait();
}

HT_TEST(a_limit_on_files_matters_to_the_first_stub)
{
	struct child child = start(limit_files, NULL);
	ck_assert_int_eq(judge_of(child.pid, NULL), HELD_LIMITED);
	ck_assert_int_eq(judge_of(child.pid, &leaving), HELD_FIT);
	finish(&child);
}

/* Syscall User Dispatch: calls from within `range` pass; others as the selector says, which lets
 * them pass at first. */
struct range {
	raddr_t lo, hi;
};

static void dispatch_calls(const void *arg)
{
	const struct range *range = arg;
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, range->lo,
		    range->hi - range->lo, &shared->selector))
		child_ready(-1);
	child_ready(0);
	for (;;)
		shared->turns++;
}

struct verdicts {
	struct range range;
	char selector;
	enum recheck_verdict in, out;
};

static void check_dispatched(const struct verdicts *expected)
{
	struct child child = start(dispatch_calls, &expected->range);
	if (child.value == 0) {
		shared->selector = expected->selector;
		ck_assert_int_eq(judge_of(child.pid, NULL), expected->in);
		ck_assert_int_eq(judge_of(child.pid, &leaving), expected->out);
	}
	finish(&child);
}

/* An attach refuses any dispatch; leaving works if the dispatch lets the last stub's calls pass. */
HT_TEST(calls_that_are_handed_to_the_program)
{
	static const struct verdicts table[] = {
		{{0, 0}, SYSCALL_DISPATCH_FILTER_BLOCK, HELD_DISPATCHED, HELD_DISPATCHED},
		{{0, 0}, SYSCALL_DISPATCH_FILTER_ALLOW, HELD_DISPATCHED, HELD_FIT},
		{{SLACK, SLACK_END}, SYSCALL_DISPATCH_FILTER_BLOCK, HELD_DISPATCHED, HELD_FIT},
		{{SLACK - 1, SLACK_END + 1}, SYSCALL_DISPATCH_FILTER_BLOCK, HELD_DISPATCHED,
			HELD_FIT},
		{{SLACK, SLACK_END - 1}, SYSCALL_DISPATCH_FILTER_BLOCK, HELD_DISPATCHED,
			HELD_DISPATCHED},
		{{SLACK + 1, SLACK_END + 1}, SYSCALL_DISPATCH_FILTER_BLOCK, HELD_DISPATCHED,
			HELD_DISPATCHED},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)
		check_dispatched(&table[i]);
}

HT_SUITE("attach/recheck")
