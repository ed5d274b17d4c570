/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>

#include "tests/unit/attach/remotestage.h"

/* --- a signal to one of several threads ----------------------------------------------------------
 */

static void note_who(int sig)
{
	(void)sig;
	shared->handled_by = (pid_t)syscall(SYS_gettid);
}

static void *wait_beside(void *arg)
{
	if (arg)
		shared->beside = (pid_t)syscall(SYS_gettid);
	wait_for_events(NULL);
	return arg;
}

/* The process has two more threads, neither of which blocks a signal. */
static void wait_for_signals(const void *arg)
{
	pthread_t thread;
	(void)arg;
	signal(SIGUSR1, note_who);
	pthread_create(&thread, NULL, wait_beside, NULL);
	pthread_create(&thread, NULL, wait_beside, shared);
	for (;;)
		pause();
}

/* Waits for the handler: on a busy machine the thread could leave the stub before the main thread
 * had a core, and take the signal. */
static void send_and_let_handle(void)
{
	send_signal();
	while (!shared->handled_by)
		sched_yield();
}

/* `sig` is sent to the process by `send` while a thread is in the stub. */
static void map_and_send(struct fixture *fixture, int sig, void (*send)(void))
{
	setup_with(fixture, wait_for_signals, NULL);
	/* The main thread blocks all signals while it makes another. */
	while (child_call(shared->beside) != SYS_epoll_wait ||
		child_call(fixture->child.pid) != SYS_pause)
		sched_yield();
	look_at = fixture->map.image + STATUS;
	looks_succeed = true;
	signalled = fixture->child.pid;
	sent = sig;
	before_the_answer = send;
	ck_no_err(map(fixture));
	close_image(&fixture->image);
}

/* The kernel gives the signal to the main thread, unless that thread blocks it. */
HT_TEST(a_signal_to_the_process_is_its_main_threads)
{
	struct fixture fixture;
	map_and_send(&fixture, SIGUSR1, send_and_let_handle);
	ck_assert_int_eq(shared->handled_by, fixture.child.pid);
	ck_assert_int_ne(fixture.image.tid, fixture.child.pid);
	ck_assert(!shared->turns);
	teardown(&fixture);
}

/* An ignored signal wakes no thread, so heaptap must not interrupt one for it. */
HT_TEST(an_ignored_signal_ends_no_wait)
{
	struct fixture fixture;
	map_and_send(&fixture, SIGCHLD, send_signal);
	child_sleeping(&fixture.child);
	ck_assert_msg(!shared->turns, "%d, errno %d", shared->result, shared->error);
	teardown(&fixture);
}

/* --- a call with a mask of its own ---------------------------------------------------------------
 */

static void note_nothing(int sig)
{
	(void)sig;
}

static sigset_t only(int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static int suspend(const sigset_t *mask)
{
	return sigsuspend(mask);
}

static int poll_nothing(const sigset_t *mask)
{
	return ppoll(NULL, 0, NULL, mask);
}

static int wait_for_no_events(const sigset_t *mask)
{
	struct epoll_event event;
	return epoll_pwait(epoll_create1(EPOLL_CLOEXEC), &event, 1, -1, mask);
}

static int (*const masked[])(const sigset_t *mask) = {suspend, poll_nothing, wait_for_no_events};

static void wait_with_mask(const void *arg)
{
	sigset_t mask = only(SIGALRM);
	signal(SIGALRM, note_who);
	signal(SIGUSR1, note_nothing);
	child_ready(0);
	shared->result = (*(int (*const *)(const sigset_t *))arg)(&mask);
	shared->error = errno;
	shared->turns = 1;
	child_wait();
}

static void check_masked(int (*const *call)(const sigset_t *mask), void (*before)(void))
{
	struct fixture fixture;
	setup_with(&fixture, wait_with_mask, call);
	kill(fixture.child.pid, SIGALRM);
	child_sleeping(&fixture.child);
	look_at = fixture.map.image + STATUS;
	looks_succeed = true;
	signalled = fixture.child.pid;
	sent = SIGUSR1;
	before_the_answer = before;
	ck_no_err(map(&fixture));
	while (!shared->handled_by)
		sched_yield();
	child_sleeping(&fixture.child);
	ck_assert_int_eq(shared->turns, before != NULL);
	close_image(&fixture.image);
	teardown(&fixture);
}

/* The thread handles the signal in the middle of the call, as after any stop; the call goes on. */
HT_TEST(a_signal_that_the_call_blocks_does_not_interrupt_it)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(masked); i++)
		check_masked(&masked[i], NULL);
}

HT_TEST(one_that_it_does_not_block_interrupts_it)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(masked); i++) {
		check_masked(&masked[i], send_signal);
		ck_assert_int_eq(shared->result, -1);
		ck_assert_int_eq(shared->error, EINTR);
	}
}

HT_SUITE("attach/stub/remote, signals")
