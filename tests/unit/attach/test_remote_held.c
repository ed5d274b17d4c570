/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/unit/attach/ptracecall.h"
#include "tests/unit/attach/remotestage.h"

#define FEW	 50u
#define LEASE_NS CLOCK_NS_PER_S

/* --- what the worker asks the kernel -------------------------------------------------------------
 */

/* Returns the CPU time of the thread, as the kernel counted it when the thread last left a core. */
static unsigned long ran_ns(pid_t tid)
{
	char path[40];
	unsigned long ns = 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", tid);
	FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%lu", &ns) != 1)
		_exit(126);
	fclose(file);
	return ns;
}

/* The thread's CPU time when it was last continued after a stop that was not the first; else 0. */
static unsigned long went_on;

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	if (!shared)
		return ptrace_really(request, tid, addr, data);
	if (request == PTRACE_INTERRUPT) {
		shared->stops++;
		shared->hasty += went_on && ran_ns(tid) == went_on;
	}
	if (request == PTRACE_CONT)
		went_on = shared->stops > 1 ? ran_ns(tid) : 0;
	return ptrace_really(request, tid, addr, data);
}

static struct ht_err *copy_remains(void *context, pid_t tid, struct stub_unmap *ret)
{
	(void)tid;
	*ret = *(const struct stub_unmap *)context;
	return NULL;
}

/* Returns the offset of the TID in the thread block of this process's glibc. */
static uint32_t tid_offset(void)
{
	const uint32_t *block = __builtin_thread_pointer();
	uint32_t at = 0;
	while (block[at] != (uint32_t)gettid())
		at++;
	return at * (uint32_t)sizeof(block[0]);
}

HT_TEST(a_thread_that_was_waiting_goes_on_to_wait)
{
	struct fixture fixture;
	setup(&fixture);
	ck_no_err(map(&fixture));
	ck_assert_int_eq(fixture.image.tid, fixture.child.pid);
	ck_assert_uint_eq(fixture.image.tid_offset, tid_offset());
	check_unharmed(&fixture);
	ck_assert_uint_le(shared->stops, FEW);
	struct stub_unmap unmap = {.lo = {fixture.map.image},
		.hi = {fixture.map.image + fixture.map.image_bytes},
		.fd = {fixture.image.agent_fd},
		.fd_count = 1};
	const struct remote_remains remains = {.look = copy_remains, .context = &unmap};
	struct remote_unmapped unmapped;
	ck_no_err(remote_unmap(&fixture.proc, &fixture.slack, &remains, false, &unmapped));
	ck_assert(unmapped.is_out);
	check_unharmed(&fixture);
	ck_assert_uint_le(shared->stops, 2 * FEW);
	close_image(&fixture.image);
	teardown(&fixture);
}

static uint64_t answered_ns; /* how long heaptap's answer comes after the stub is ready */

static void let_it_wait_for_the_answer(void)
{
	for (uint64_t end_ns = clock_mono_ns() + answered_ns; clock_mono_ns() < end_ns;)
		sched_yield();
}

/* The time of a thread that is stopped again, to be put back, counts too. */
HT_TEST(reports_the_time_in_the_stub)
{
	struct fixture fixture;
	setup(&fixture);
	look_at = fixture.map.image + STATUS;
	looks_succeed = true;
	answered_ns = 20 * CLOCK_NS_PER_MS;
	before_the_answer = let_it_wait_for_the_answer;
	ck_no_err(map(&fixture));
	ck_assert_uint_ge(fixture.image.stop_ns, answered_ns);
	check_unharmed(&fixture);
	close_image(&fixture.image);
	teardown(&fixture);
}

/* The stub has made its calls all the same. heaptap puts the thread back, and does not look again
 * until a deadline. */
HT_TEST(an_error_after_the_answer_does_not_hold_the_thread)
{
	struct fixture fixture;
	setup(&fixture);
	look_at = fixture.map.image + STATUS;
	ck_err(map(&fixture), HT_ERR_SYS);
	ck_assert_uint_eq(shared->failed, 1);
	ck_assert(!fixture.image.not_taken);
	check_unharmed(&fixture);
	ck_assert_uint_le(shared->stops, FEW);
	close_image(&fixture.image);
	teardown(&fixture);
}

static void occupy_one_core(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		shared->turns = 0;
}

static pid_t waiting_thread;

/* SCHED_IDLE: the thread gets no preference when it is continued. */
static void let_it_wait_for_a_core(void)
{
	(void)sched_setscheduler(waiting_thread, SCHED_IDLE, &(struct sched_param){0});
}

/* If heaptap stopped a thread without a core again, the thread would never run an instruction. */
HT_TEST(a_thread_that_waits_for_a_core_is_not_stopped_before_it_has_run)
{
	struct fixture fixture;
	setup(&fixture);
	look_at = fixture.map.image + STATUS;
	struct child busy = child_fork(occupy_one_core, NULL);
	child_share_core(fixture.child.pid, busy.pid);
	waiting_thread = fixture.child.pid;
	before_the_answer = let_it_wait_for_a_core;
	ck_err(map(&fixture), HT_ERR_SYS);
	ck_assert_uint_eq(shared->failed, 1);
	ck_assert_uint_ge(shared->stops, 2);
	ck_assert_uint_eq(shared->hasty, 0);
	child_kill(&busy);
	check_unharmed(&fixture);
	close_image(&fixture.image);
	teardown(&fixture);
}

/* --- a signal meanwhile -------------------------------------------------------------------------
 */

static void do_nothing(int sig)
{
	(void)sig;
}

static void wait_with_handler(const void *arg)
{
	struct sigaction action = {.sa_handler = do_nothing, .sa_flags = *(const int *)arg};
	sigaction(SIGUSR1, &action, NULL);
	wait_for_events(NULL);
}

/* epoll_wait returns EINTR for any handler flags, also SA_RESTART. The signal comes while the
 * thread is in the stub. */
static void check_interrupted(int flags)
{
	struct fixture fixture;
	setup_with(&fixture, wait_with_handler, &flags);
	look_at = fixture.map.image + STATUS;
	looks_succeed = true;
	signalled = fixture.child.pid;
	before_the_answer = send_signal;
	ck_no_err(map(&fixture));
	while (child_call(fixture.child.pid) != SYS_pause &&
		child_call(fixture.child.pid) != SYS_epoll_wait)
		sched_yield();
	ck_assert_int_eq(shared->turns, 1);
	ck_assert_int_eq(shared->result, -1);
	ck_assert_int_eq(shared->error, EINTR);
	close_image(&fixture.image);
	teardown(&fixture);
}

HT_TEST(a_signal_that_comes_in_the_stub_interrupts_the_call)
{
	check_interrupted(0);
	check_interrupted(SA_RESTART);
}

/* --- another thread of the program ---------------------------------------------------------------
 */

/* Puts the program's own file on a number that the stub uses, as programs do that close unknown
 * descriptors. */
static void *give_numbers(void *arg)
{
	struct stat stat;
	for (;;) {
		while (!shared->wanted)
			;
		if (dup2(shared->own, shared->wanted) < 0 || fstat(shared->wanted, &stat))
			_exit(1);
		shared->inode = stat.st_ino;
		shared->wanted = 0;
	}
	return arg;
}

static int own_memory, own_socket;

static void wait_beside_a_thread(const void *arg)
{
	pthread_t thread;
	pthread_create(&thread, NULL, give_numbers, NULL);
	wait_for_events(arg);
}

static struct proc *looked_at;
static unsigned which;

/* The program's own file takes the number of a descriptor that the stub has made and reported. */
static void take_its_number(void)
{
	int32_t fds[4];
	raddr_t at = look_at - STATUS + ABI_CONTROL_OFF + offsetof(struct abi_control, stub_fds);
	if (syscall(SYS_pread64, looked_at->mem_fd, fds, sizeof(fds), at) != sizeof(fds))
		_exit(1);
	shared->own = which == 1 ? own_memory : own_socket;
	shared->wanted = fds[which];
	while (shared->wanted)
		sched_yield();
	shared->result = fds[which];
}

/* heaptap must not take the program's file for the agent's, and the stub must not close it. */
static void check_taken_over(unsigned descriptor)
{
	struct fixture fixture;
	char path[48];
	struct stat stat;
	int pair[2];
	which = descriptor;
	own_memory = memfd_create("own", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(own_memory, (off_t)abi_image_bytes(SLOTS)), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	own_socket = pair[0];
	setup_with(&fixture, wait_beside_a_thread, NULL);
	fixture.map.lease_ns = LEASE_NS;
	look_at = fixture.map.image + STATUS;
	looks_succeed = true;
	looked_at = &fixture.proc;
	before_the_answer = take_its_number;
	ck_err_says(map(&fixture), HT_ERR_REFUSED, "gave up waiting");
	ck_assert_int_eq(fixture.image.memfd, -1);
	ck_assert(fixture.image.not_taken);
	ck_assert_uint_ne(shared->inode, 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", fixture.child.pid, shared->result);
	ck_assert_int_eq(fstatat(AT_FDCWD, path, &stat, 0), 0);
	ck_assert_uint_eq(stat.st_ino, shared->inode);
	check_unharmed(&fixture);
	teardown(&fixture);
	close(own_memory);
	close(pair[0]);
	close(pair[1]);
}

HT_TEST(the_memory_is_another_file_by_now)
{
	check_taken_over(1);
}

HT_TEST(the_agents_socket_is_another_file_by_now)
{
	check_taken_over(2);
}

HT_TEST(the_daemons_socket_is_another_file_by_now)
{
	check_taken_over(3);
}

/* heaptap lost the core past the lease: it must not wait for a thread that has given up. */
HT_TEST(a_thread_that_has_given_up_is_not_waited_for)
{
	struct fixture fixture;
	setup(&fixture);
	fixture.map.lease_ns = CLOCK_NS_PER_MS;
	look_at = fixture.map.image + STATUS;
	seen_late = fixture.child.pid;
	ck_err(map(&fixture), HT_ERR_REFUSED);
	ck_assert_int_eq(fixture.image.memfd, -1);
	ck_assert(fixture.image.not_taken);
	ck_assert_uint_le(shared->looks, FEW);
	check_unharmed(&fixture);
	teardown(&fixture);
}

/* The process is an unreaped zombie: its number still exists. */
HT_TEST(no_thread_is_waited_for_where_none_lives)
{
	struct fixture fixture;
	setup(&fixture);
	ck_assert_int_eq(kill(fixture.child.pid, SIGKILL), 0);
	while (child_state(fixture.child.pid) != 'Z')
		sched_yield();
	ck_err(map(&fixture), HT_ERR_TARGET_GONE);
	teardown(&fixture);
}

HT_SUITE("attach/stub/remote, held")
