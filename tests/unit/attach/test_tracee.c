/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/tracee.h"

#include <errno.h>
#include <linux/kvm.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/ipc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "tests/support/blocked.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define FAR_NS (60 * CLOCK_NS_PER_S)
#define LONG_S 1000

/* Shared with the children of a test. */
static struct shared {
	volatile long result, error;
	volatile unsigned handled, turns, spins;
	volatile unsigned stop;
} * shared;

static struct proc proc;

static void setup(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void open_proc(const struct child *child)
{
	ck_no_err(proc_open(child->pid, &proc));
	ck_no_err(proc_open_mem(&proc));
}

static struct tracee stop_thread(pid_t tid)
{
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(tracee_stop(tid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	return tracee;
}

static struct proc_status status_of(pid_t tid)
{
	struct proc_status status;
	ck_no_err(proc_status(&proc, tid, &status));
	return status;
}

/* Makes the blocking call. Once that has returned, the child is in pause(2). */
static void block(const void *arg)
{
	long (*const *call)(void) = arg;
	child_ready(0);
	long result = (*call)();
	shared->error = errno;
	shared->result = result;
	shared->turns = 1;
	child_wait();
}

HT_TEST(blocked_calls_do_not_notice)
{
	static long (*const calls[])(void) = {blocked_epoll, blocked_epoll_timed, blocked_nanosleep,
		blocked_poll, blocked_ppoll, blocked_select, blocked_recv, blocked_read,
		blocked_send, blocked_accept, blocked_pipe, blocked_sigtimedwait, blocked_semop,
		blocked_futex, blocked_waitpid};
	setup();
	blocked_note = &shared->result;
	for (size_t i = 0; i < HT_ARRAY_SIZE(calls); i++) {
		struct child child = child_fork(block, &calls[i]);
		child_sleeping(&child);
		for (unsigned again = 0; again < 2; again++) {
			struct tracee tracee = stop_thread(child.pid);
			ck_assert_int_ge((long)tracee.regs.orig_rax, 0);
			ck_no_err(tracee_release(&tracee));
			child_sleeping(&child);
		}
		ck_assert_msg(shared->turns == 0, "call %zu gave %ld, errno %ld", i,
			(long)shared->result, (long)shared->error);
		child_kill(&child);
		if (calls[i] == blocked_semop)
			semctl((int)shared->result, 0, IPC_RMID);
	}
}

/* Stops the thread as its tracer, and is killed while it holds the thread. */
static void stop_and_die(const void *arg)
{
	const pid_t *tid = arg;
	stop_thread(*tid);
	raise(SIGKILL);
}

HT_TEST(the_death_of_its_tracer_goes_unnoticed)
{
	static long (*const calls[])(void) = {blocked_epoll, blocked_epoll_timed, blocked_recv,
		blocked_accept, blocked_sigtimedwait, blocked_semop, blocked_pipe, blocked_poll};
	setup();
	blocked_note = &shared->result;
	for (size_t i = 0; i < HT_ARRAY_SIZE(calls); i++) {
		int status;
		struct child child = child_fork(block, &calls[i]);
		child_sleeping(&child);
		pid_t tracer = fork();
		if (!tracer)
			stop_and_die(&child.pid);
		ck_assert_int_eq(waitpid(tracer, &status, 0), tracer);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		child_sleeping(&child);
		ck_assert_msg(shared->turns == 0, "call %zu gave %ld, errno %ld", i,
			(long)shared->result, (long)shared->error);
		child_kill(&child);
		if (calls[i] == blocked_semop)
			semctl((int)shared->result, 0, IPC_RMID);
	}
}

/* --- signals -----------------------------------------------------------------------------------
 */

static void count(int sig)
{
	(void)sig;
	shared->handled++;
}

static void block_with_handler(const void *arg)
{
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count}, NULL);
	block(arg);
}

/* The program must see EINTR of a signal of its own, also when it comes while a thread is held. */
HT_TEST(a_signal_while_it_is_held_interrupts)
{
	static long (*const calls[])(void) = {blocked_epoll, blocked_recv, blocked_poll,
		blocked_select, blocked_nanosleep, blocked_pipe, blocked_accept};
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(calls); i++) {
		*shared = (struct shared){0};
		struct child child = child_fork(block_with_handler, &calls[i]);
		child_sleeping(&child);
		struct tracee tracee = stop_thread(child.pid);
		ck_assert_int_ge(regs_call(&tracee.regs), 0);
		ck_assert_int_eq(kill(child.pid, SIGUSR1), 0);
		ck_no_err(tracee_release(&tracee));
		while (!shared->handled)
			sched_yield();
		child_sleeping(&child);
		ck_assert_uint_eq(shared->handled, 1);
		ck_assert_msg(shared->turns == 1, "call %zu was made again", i);
		ck_assert_int_eq(shared->result, -1);
		ck_assert_int_eq(shared->error, EINTR);
		child_kill(&child);
	}
}

static void block_without_usr1(const void *arg)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	block_with_handler(arg);
}

HT_TEST(a_blocked_signal_interrupts_nothing)
{
	static long (*const call)(void) = blocked_epoll;
	setup();
	struct child child = child_fork(block_without_usr1, &call);
	child_sleeping(&child);
	ck_assert_int_eq(kill(child.pid, SIGUSR1), 0);
	struct tracee tracee = stop_thread(child.pid);
	ck_no_err(tracee_release(&tracee));
	child_sleeping(&child);
	ck_assert_uint_eq(shared->turns, 0);
	child_kill(&child);
}

static void add_value(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	shared->result += info->si_value.sival_int;
	shared->handled++;
}

static void turn(const void *arg)
{
	(void)arg;
	struct sigaction action = {.sa_sigaction = add_value, .sa_flags = SA_SIGINFO};
	sigaction(SIGRTMIN, &action, NULL);
	child_ready(0);
	while (!shared->stop)
		shared->turns++;
	child_wait();
}

/* No signal is lost, doubled or stripped of its siginfo. */
HT_TEST(signals_pass_a_thread_that_is_being_stopped)
{
	enum { ROUNDS = 100 };
	setup();
	struct child child = child_fork(turn, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		union sigval value = {.sival_int = i};
		ck_assert_int_eq(sigqueue(child.pid, SIGRTMIN, value), 0);
		struct tracee tracee = stop_thread(child.pid);
		ck_assert_int_eq(sigqueue(child.pid, SIGRTMIN, value), 0);
		ck_no_err(tracee_release(&tracee));
	}
	while (shared->handled < 2 * ROUNDS)
		sched_yield();
	shared->stop = true;
	child_sleeping(&child);
	ck_assert_uint_eq(shared->handled, 2 * ROUNDS);
	ck_assert_int_eq(shared->result, ROUNDS * (ROUNDS - 1));
	child_kill(&child);
}

/* --- threads that cannot be held -----------------------------------------------------------------
 */

static void wait_until_stopped(const struct child *child)
{
	int status;
	ck_assert_int_eq(waitpid(child->pid, &status, WUNTRACED), child->pid);
	ck_assert(WIFSTOPPED(status));
}

HT_TEST(a_stopped_process_stays_stopped)
{
	setup();
	struct child child = child_fork(turn, NULL);
	struct tracee tracee;
	enum tracee_result result;
	open_proc(&child);
	kill(child.pid, SIGSTOP);
	wait_until_stopped(&child);
	ck_no_err(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED_BY_SIGNAL);
	while (status_of(0).state == 'R')
		sched_yield();
	ck_assert_int_eq(status_of(0).state, 'T');
	ck_assert_int_eq(status_of(0).tracer, 0);
	unsigned turns = shared->turns;
	kill(child.pid, SIGCONT);
	while (shared->turns == turns)
		sched_yield();
	proc_close(&proc);
	child_kill(&child);
}

static void end_at_once(const void *arg)
{
	(void)arg;
	child_ready(0);
}

HT_TEST(ended_threads_are_gone)
{
	struct child child = child_fork(end_at_once, NULL);
	struct tracee tracee;
	enum tracee_result result;
	ck_assert_int_eq(waitpid(child.pid, NULL, 0), child.pid);
	ck_no_err(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_GONE);
	close(child.ready_fd);
}

HT_TEST(a_thread_that_ends_while_it_is_asked_is_gone)
{
	setup();
	struct child child = child_fork(turn, NULL);
	struct tracee tracee = stop_thread(child.pid);
	enum tracee_result result;
	kill(child.pid, SIGKILL);
	do
		ck_no_err(tracee_poll(&tracee, &result));
	while (result == TRACEE_BUSY);
	ck_assert_int_eq(result, TRACEE_GONE);
	close(child.ready_fd);
}

HT_TEST(a_traced_thread_is_refused)
{
	setup();
	struct child child = child_fork(turn, NULL);
	pid_t other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct tracee held = stop_thread(child.pid);
		shared->result = held.tid;
		child_wait();
	}
	while (!shared->result)
		sched_yield();
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(tracee_ask(child.pid, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_REFUSED);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	/* When that tracer dies, the thread runs on. */
	unsigned turns = shared->turns;
	while (shared->turns == turns)
		sched_yield();
	child_kill(&child);
}

static void in_vfork(const void *arg)
{
	(void)arg;
	child_ready(0);
	if (vfork() == 0)
		blocked_wait_for_parent();
}

HT_TEST(a_thread_in_vfork_is_busy)
{
	struct child child = child_fork(in_vfork, NULL);
	struct tracee tracee;
	enum tracee_result result;
	open_proc(&child);
	while (status_of(0).state != 'D')
		sched_yield();
	ck_no_err(
		tracee_stop(child.pid, clock_mono_ns() + CLOCK_NS_PER_MS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_BUSY);
	proc_close(&proc);
	child_kill(&child);
}

/* --- registers -----------------------------------------------------------------------------------
 */

void spin_until_told(volatile unsigned *spins);

/* Loops until the test sets r12, and then loops without end. */
__asm__(".text\n"
	".globl spin_until_told\n"
	"spin_until_told:\n"
	"	xor %r12d, %r12d\n"
	"1:	incl (%rdi)\n"
	"	test %r12, %r12\n"
	"	jz 1b\n"
	"	ret\n");

static void spin(const void *arg)
{
	(void)arg;
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count}, NULL);
	child_ready(0);
	volatile unsigned *spins = &shared->spins;
	__asm__ volatile("call spin_until_told" : "+D"(spins)::"r12", "memory", "cc");
	shared->result = 1;
	while (!shared->stop)
		shared->turns++;
	child_wait();
}

static struct child start_spinning(void)
{
	setup();
	struct child child = child_fork(spin, NULL);
	open_proc(&child);
	while (!shared->spins)
		sched_yield();
	return child;
}

HT_TEST(a_thread_goes_on_from_given_registers)
{
	struct child child = start_spinning();
	struct tracee tracee = stop_thread(child.pid);
	ck_no_err(tracee_release(&tracee));
	ck_assert_int_eq(status_of(0).tracer, 0);
	tracee = stop_thread(child.pid);
	tracee.regs.r12 = 1;
	ck_assert_int_eq(shared->result, 0);
	ck_no_err(tracee_release_at(&tracee, &tracee.regs));
	while (!shared->result)
		sched_yield();
	ck_assert_int_eq(status_of(0).tracer, 0);
	proc_close(&proc);
	child_kill(&child);
}

HT_TEST(a_thread_runs_while_it_is_traced)
{
	struct child child = start_spinning();
	struct tracee tracee = stop_thread(child.pid);
	struct user_regs_struct regs = tracee.regs;
	enum tracee_result result;
	regs.r12 = 1;
	ck_no_err(tracee_run(&tracee, &regs));
	while (!shared->turns)
		sched_yield();
	ck_assert_int_eq(status_of(0).tracer, getpid());
	kill(child.pid, SIGUSR1);
	while (!shared->handled)
		ck_no_err(tracee_pass_signals(&tracee));
	ck_no_err(tracee_stop_again(&tracee, clock_mono_ns() + FAR_NS, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	unsigned turns = shared->turns;
	ck_no_err(tracee_release(&tracee));
	ck_assert_int_eq(status_of(0).tracer, 0);
	while (shared->turns == turns)
		sched_yield();
	proc_close(&proc);
	child_kill(&child);
}

HT_TEST(a_thread_that_ends_while_it_runs_is_an_error)
{
	struct child child = start_spinning();
	struct tracee tracee = stop_thread(child.pid);
	struct ht_err *err;
	ck_no_err(tracee_run(&tracee, &tracee.regs));
	kill(child.pid, SIGKILL);
	do
		err = tracee_pass_signals(&tracee);
	while (!err);
	ck_err(err, HT_ERR_TARGET_GONE);
	enum tracee_result result;
	ck_no_err(tracee_stop_again(&tracee, clock_mono_ns() + FAR_NS, &result));
	ck_assert_int_eq(result, TRACEE_GONE);
	proc_close(&proc);
	close(child.ready_fd);
}

HT_TEST(restarts_are_spelled_out)
{
	static const struct {
		long nr, rax, want_rax;
		int back;
	} table[] = {
		{SYS_read, -512, SYS_read, 2},
		{SYS_futex, -513, SYS_futex, 2},
		{SYS_select, -514, SYS_select, 2},
		{SYS_nanosleep, -516, SYS_restart_syscall, 2},
		{SYS_close, -EINTR, -EINTR, 0},
		{SYS_nanosleep, -EINTR, -EINTR, 0},
		{SYS_read, 5, 5, 0},
		{SYS_read, -EAGAIN, -EAGAIN, 0},
		{-1, -512, -512, 0},
		{-1, -EINTR, -EINTR, 0},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct user_regs_struct stopped = {.orig_rax = (unsigned long long)table[i].nr,
			.rax = (unsigned long long)table[i].rax,
			.rip = 0x1000,
			.rbx = 7};
		struct user_regs_struct want = stopped, got;
		got = tracee_resume_regs(&stopped, false);
		want.orig_rax = (unsigned long long)-1;
		want.rax = (unsigned long long)table[i].want_rax;
		want.rip -= (unsigned)table[i].back;
		ck_assert_msg(memcmp(&got, &want, sizeof(got)) == 0, "row %zu", i);
		/* Seccomp filters may lack restart_syscall(2), so the call itself is made again. */
		got = tracee_resume_regs(&stopped, true);
		if (want.rax == SYS_restart_syscall)
			want.rax = stopped.orig_rax;
		ck_assert_msg(memcmp(&got, &want, sizeof(got)) == 0, "row %zu, filtered", i);
	}
}

/* KVM_RUN is the only driver ioctl that can be restarted. */
HT_TEST(a_guest_goes_on_running)
{
	static const unsigned long request[] = {KVM_RUN, KVM_RUN + 1};
	for (size_t i = 0; i < HT_ARRAY_SIZE(request); i++) {
		const struct user_regs_struct stopped = {.orig_rax = SYS_ioctl,
			.rax = -(unsigned long)EINTR,
			.rsi = request[i],
			.rip = 0x1000};
		struct user_regs_struct got = tracee_resume_regs(&stopped, false);
		ck_assert_uint_eq(got.rip, i ? 0x1000 : 0x1000 - REGS_SYSCALL_BYTES);
		ck_assert_uint_eq(got.rax, i ? stopped.rax : SYS_ioctl);
	}
}

/* heaptap sets the registers so that the thread makes its call again: the thread sleeps again. */
HT_TEST(spelled_out_restarts_work)
{
	static long (*const calls[])(void) = {
		blocked_epoll, blocked_nanosleep, blocked_poll, blocked_pipe, blocked_futex};
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(calls); i++) {
		struct child child = child_fork(block, &calls[i]);
		child_sleeping(&child);
		struct tracee tracee = stop_thread(child.pid);
		struct user_regs_struct regs = tracee_resume_regs(&tracee.regs, false);
		ck_no_err(tracee_release_at(&tracee, &regs));
		child_sleeping(&child);
		ck_assert_msg(shared->turns == 0, "call %zu gave %ld, errno %ld", i,
			(long)shared->result, (long)shared->error);
		child_kill(&child);
	}
}

/* --- restartable sequences
 * ------------------------------------------------------------------------ */

static struct rseq_cs section __attribute__((aligned(32)));

static void with_rseq(const void *arg)
{
	(void)arg;
	child_ready((long)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset));
	child_wait();
}

HT_TEST(restartable_sequences)
{
	if (__rseq_size == 0) {
		printf("skipped: tracee: the C library registers no restartable sequences\n");
		return;
	}
	struct child child = child_fork(with_rseq, NULL);
	open_proc(&child);
	struct tracee tracee = stop_thread(child.pid);
	raddr_t slot = (raddr_t)child.value + offsetof(struct rseq, rseq_cs);
	static const struct {
		int64_t start;
		uint64_t length;
		bool inside;
	} table[] = {{0, 1, true}, {-4, 5, true}, {-4, 4, false}, {1, 100, false}};
	bool inside = true;

	ck_no_err(tracee_in_rseq(&proc, &tracee, &inside));
	ck_assert(!inside);
	ck_no_err(memory_write_u64(&proc, slot, (raddr_t)(uintptr_t)&section));
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		section.start_ip = tracee.regs.rip + (uint64_t)table[i].start;
		section.post_commit_offset = table[i].length;
		ck_no_err(memory_write(
			&proc, (raddr_t)(uintptr_t)&section, &section, sizeof(section)));
		ck_no_err(tracee_in_rseq(&proc, &tracee, &inside));
		ck_assert_msg(inside == table[i].inside, "row %zu", i);
	}
	ck_no_err(memory_write_u64(&proc, slot, 0));
	ck_no_err(tracee_release(&tracee));
	child_sleeping(&child);
	proc_close(&proc);
	child_kill(&child);
}

HT_SUITE("attach/thread/tracee")
