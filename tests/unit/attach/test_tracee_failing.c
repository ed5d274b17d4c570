/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the tracer that fail once while it stops a thread and lets it go; signals that come
 * between two of them; and which calls of the thread are made again after a stop.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/thread/stops.h"
#include "attach/thread/tracee.h"
#include "tests/support/blocked.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/ptracecall.h"

#define FAR_NS	  (60 * CLOCK_NS_PER_S)
#define LOOKS_MAX 2000u
#define CALLS_MAX 600u /* more than there are */

/* Shared with the child. */
static struct shared {
	volatile long error;
	volatile unsigned turns;
} * shared;

/* The next ptrace(2) of this request fails with failing_errno; 0: none fails. If failing_look, the
 * next waitid(2) with WNOHANG fails. */
static enum __ptrace_request failing_request;
static int failing_errno;
static unsigned failing_again; /* how many calls of this request fail besides the next */
static bool failing_look;
/* Called when the tracee is seized but still runs. */
static void (*before_interrupt)(pid_t tid);
static bool dies_at_cont;

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	if (request == PTRACE_INTERRUPT && before_interrupt)
		before_interrupt(tid);
	if ((request == PTRACE_CONT || (request == PTRACE_SYSCALL && data)) && dies_at_cont)
		raise(SIGKILL);
	if (request != failing_request || !failing_errno)
		return ptrace_really(request, tid, addr, data);
	errno = failing_errno;
	if (failing_again)
		failing_again--;
	else
		failing_errno = 0;
	return -1;
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	if (!failing_look || !(options & WNOHANG))
		return (int)syscall(SYS_waitid, type, id, info, options, NULL);
	failing_look = false;
	errno = ENOMEM;
	return -1;
}

static void block(const void *arg)
{
	(void)arg;
	child_ready(0);
	blocked_epoll();
	shared->error = errno;
	shared->turns = 1;
	child_wait();
}

static void stop_while_one_fails(const struct child *child)
{
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(tracee_stop(child->pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	ck_no_err(tracee_release(&tracee));
	ck_assert(!failing_errno && !failing_look);
	child_sleeping(child);
}

/* epoll_wait returns EINTR after each stop that the tracer does not hide. */
HT_TEST(a_single_failure_goes_unnoticed)
{
	static const int requests[] = {PTRACE_SETREGSET, PTRACE_DETACH}, errors[] = {EIO, ESRCH};
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	struct child child = child_fork(block, NULL);
	child_sleeping(&child);
	for (size_t i = 0; i < HT_ARRAY_SIZE(requests) * HT_ARRAY_SIZE(errors); i++) {
		failing_request = (enum __ptrace_request)requests[i / HT_ARRAY_SIZE(errors)];
		failing_errno = errors[i % HT_ARRAY_SIZE(errors)];
		stop_while_one_fails(&child);
		ck_assert_msg(shared->turns == 0, "row %zu: errno %ld", i, (long)shared->error);
	}
	failing_look = true;
	stop_while_one_fails(&child);
	ck_assert_msg(shared->turns == 0, "look: errno %ld", (long)shared->error);
	child_kill(&child);
}

static void fail_times(enum __ptrace_request request, int sys, unsigned times)
{
	failing_request = request;
	failing_errno = sys;
	failing_again = times - 1;
}

/* The error says that the target has ended, not that a call of heaptap failed. */
HT_TEST(killed_while_it_was_stopped)
{
	struct tracee tracee;
	enum tracee_result result;
	uint64_t mask;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	struct child child = child_fork(block, NULL);
	ck_no_err(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	fail_times(PTRACE_GETSIGMASK, ESRCH, 1);
	ck_no_err(tracee_signal_mask(&tracee, &mask));
	ck_no_err(stops_get_mask(child.pid, &mask));
	fail_times(PTRACE_GETSIGMASK, ESRCH, 2);
	ck_err(tracee_signal_mask(&tracee, &mask), HT_ERR_TARGET_GONE);
	fail_times(PTRACE_GETSIGMASK, ESRCH, 2);
	ck_err(stops_get_mask(child.pid, &mask), HT_ERR_TARGET_GONE);
	fail_times(PTRACE_SETSIGMASK, ESRCH, 2);
	ck_err(stops_set_mask(child.pid, 0), HT_ERR_TARGET_GONE);
	fail_times(PTRACE_GETSIGMASK, EIO, 2);
	ck_err(tracee_signal_mask(&tracee, &mask), HT_ERR_SYS);
	ck_no_err(tracee_release(&tracee));
	child_kill(&child);
}

static void count(int sig)
{
	(void)sig;
	shared->turns++;
}

static void spin(const void *arg)
{
	(void)arg;
	signal(SIGUSR1, count);
	child_ready(0);
	for (;;)
		shared->error = 0;
}

/* Sends a signal, and waits until the kernel has stopped the tracee to report it to the tracer. */
static void send_signal(pid_t tid)
{
	before_interrupt = NULL;
	kill(tid, SIGUSR1);
	while (child_state(tid) != 't')
		sched_yield();
}

HT_TEST(a_signal_before_it_is_asked_is_passed_on)
{
	struct tracee tracee;
	enum tracee_result result;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	struct child child = child_fork(spin, NULL);
	before_interrupt = send_signal;
	ck_no_err(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	ck_no_err(tracee_release(&tracee));
	for (unsigned looks = 0; looks < LOOKS_MAX && !shared->turns; looks++)
		usleep(1000);
	ck_assert_uint_eq(shared->turns, 1);
	child_kill(&child);
}

/* The tracer dies between the look that finds the tracee stopped by a signal and the request that
 * passes the signal on. */
static void die_with_a_signal(pid_t tid)
{
	struct tracee tracee;
	enum tracee_result result;

	before_interrupt = send_signal;
	dies_at_cont = true;
	ht_err_free(tracee_stop(tid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	_exit(1);
}

/* As die_with_a_signal, while the tracer follows the tracee's system calls until an exec. */
static void die_going_on(pid_t tid)
{
	bool lives;
	int status;

	dies_at_cont = true;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD) == 0 &&
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0) {
		ht_err_free(stops_await(tid, PTRACE_INTERRUPT, &status, &lives));
		kill(tid, SIGUSR1);
		ht_err_free(stops_resume_and_await(tid, PTRACE_SYSCALL));
	}
	_exit(1);
}

static void check_signal_outlives(void (*die)(pid_t tid))
{
	int status;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	struct child child = child_fork(spin, NULL);
	pid_t tracer = fork();
	if (!tracer)
		die(child.pid);
	ck_assert_int_eq(waitpid(tracer, &status, 0), tracer);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	for (unsigned looks = 0; looks < LOOKS_MAX && !shared->turns; looks++)
		usleep(1000);
	ck_assert_uint_eq(shared->turns, 1);
	child_kill(&child);
}

HT_TEST(a_signal_outlives_its_tracer)
{
	check_signal_outlives(die_with_a_signal);
}

HT_TEST(a_signal_outlives_who_goes_to_the_exec)
{
	check_signal_outlives(die_going_on);
}

/* Each call in which the kernel gives EINTR for a mere stop is made again, and no other. */
HT_TEST(these_calls_repeat_after_eintr)
{
	static const unsigned long repeats[] = {SYS_accept, SYS_accept4, SYS_connect,
		SYS_epoll_pwait, SYS_epoll_pwait2, SYS_epoll_wait, SYS_io_getevents,
		SYS_io_pgetevents, SYS_io_uring_enter, SYS_msgrcv, SYS_msgsnd, SYS_ppoll,
		SYS_preadv2, SYS_pselect6, SYS_pwritev2, SYS_read, SYS_readv, SYS_recvfrom,
		SYS_recvmmsg, SYS_recvmsg, SYS_rt_sigtimedwait, SYS_select, SYS_semop,
		SYS_semtimedop, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_splice,
		SYS_write, SYS_writev};
	for (unsigned long nr = 0; nr < CALLS_MAX; nr++) {
		const struct user_regs_struct stopped = {
			.orig_rax = nr, .rax = -(unsigned long)EINTR, .rip = 2};
		struct user_regs_struct regs = tracee_resume_regs(&stopped, false);
		bool wanted = false;
		for (size_t i = 0; i < HT_ARRAY_SIZE(repeats); i++)
			wanted |= repeats[i] == nr;
		ck_assert_msg(
			regs.rip == (wanted ? 0 : 2) && regs.rax == (wanted ? nr : stopped.rax),
			"call %lu", nr);
	}
}

HT_SUITE("attach/thread/tracee, failing")
