/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/remote.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/inject/stub_layout.h"
#include "attach/target/clock.h"
#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define SLOTS	 2u
#define STATUS	 (ABI_CONTROL_OFF + offsetof(struct abi_control, stub_status))
#define FD_FLOOR 100
#define FEW	 50u

static struct shared {
	atomic_uint stops, hasty, failed;
	volatile int result, error, turns;
} * shared;

/* --- what the worker asks the kernel -------------------------------------------------------------
 */

/* Where the look at the stub's progress fails that comes after our answer; and what is done just
 * before the answer. */
static uint64_t fail_at;
static void (*before_the_answer)(void);

/* The first look that sees it ready leads to the answer. */
static bool fails(int64_t status)
{
	static unsigned looks;
	looks += status >= STUB_READY;
	if (looks == 1 && before_the_answer)
		before_the_answer();
	return looks == 2;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	ssize_t got = syscall(SYS_pread64, fd, buffer, length, offset);
	if (!fail_at || (uint64_t)offset != fail_at || got != sizeof(int64_t))
		return got;
	if (!fails(*(const int64_t *)buffer))
		return got;
	shared->failed++;
	errno = ENOMEM;
	return -1;
}

/* Kept by the kernel up to when the thread last stopped running. */
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

/* What it had run when it was last let go, after a stop that was not the first. */
static unsigned long went_on;

long ptrace(enum __ptrace_request request, ...)
{
	static long (*real)(enum __ptrace_request request, ...);
	va_list args;
	va_start(args, request);
	pid_t tid = va_arg(args, pid_t);
	void *addr = va_arg(args, void *), *data = va_arg(args, void *);
	va_end(args);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ptrace");
	if (!shared)
		return real(request, tid, addr, data);
	if (request == PTRACE_INTERRUPT) {
		shared->stops++;
		shared->hasty += went_on && ran_ns(tid) == went_on;
	}
	if (request == PTRACE_CONT)
		went_on = shared->stops > 1 ? ran_ns(tid) : 0;
	return real(request, tid, addr, data);
}

/* --- a target ----------------------------------------------------------------------------------
 */

static void wait_for_events(const void *arg)
{
	struct epoll_event event;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	(void)arg;
	child_ready(0);
	shared->result = epoll_wait(epoll_fd, &event, 1, -1);
	shared->error = errno;
	shared->turns = 1;
	child_wait();
}

static void setup(struct proc *proc, struct child *child, struct remote_slack *slack)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	void *page = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	*slack = (struct remote_slack){
		.addr = (raddr_t)(uintptr_t)page, .bytes = sizeof(slack->original)};
	*child = child_fork(wait_for_events, NULL);
	child_sleeping(child);
	ck_no_err(proc_open(child->pid, proc));
	ck_no_err(proc_open_mem(proc));
}

/* Free address space, here and so in a child. */
static raddr_t hole(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	munmap(at, bytes);
	return (raddr_t)(uintptr_t)at;
}

static struct stub_map map_of(void)
{
	uint64_t bytes = abi_image_bytes(SLOTS);
	return (struct stub_map){.image = hole(bytes),
		.image_bytes = bytes,
		.fd_floor = FD_FLOOR,
		.lease_ns = 10 * CLOCK_NS_PER_S,
		.name = "test"};
}

static void close_image(const struct remote_image *image)
{
	close(image->memfd);
	close(image->daemon_fd);
	close(image->agent_socket);
}

static void check_unharmed(const struct proc *proc, struct child *child)
{
	struct proc_syscall call = {0};
	struct proc_status status;
	while (call.nr != SYS_epoll_wait && !shared->turns)
		ck_no_err(proc_syscall_read(proc, child->pid, &call));
	ck_assert_msg(!shared->turns, "%d, errno %d", shared->result, shared->error);
	ck_no_err(proc_status(proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	ck_assert_uint_eq(status.sig_blk, 0);
}

static struct ht_err *copy_remains(void *context, pid_t tid, struct stub_unmap *ret)
{
	(void)tid;
	*ret = *(const struct stub_unmap *)context;
	return NULL;
}

START_TEST(a_thread_that_was_waiting_goes_on_to_wait)
{
	struct proc proc;
	struct child child;
	struct remote_slack slack;
	struct remote_image image;
	setup(&proc, &child, &slack);
	struct stub_map map = map_of();
	ck_no_err(remote_map(&proc, &slack, &map, false, NULL, &image));
	ck_assert_int_eq(image.tid, child.pid);
	check_unharmed(&proc, &child);
	ck_assert_uint_le(shared->stops, FEW);
	struct stub_unmap unmap = {.lo = {map.image},
		.hi = {map.image + map.image_bytes},
		.fd = {image.agent_fd},
		.fd_count = 1};
	const struct remote_remains remains = {.look = copy_remains, .context = &unmap};
	uint64_t stop_ns;
	ck_no_err(remote_unmap(&proc, &slack, &remains, false, &stop_ns));
	check_unharmed(&proc, &child);
	ck_assert_uint_le(shared->stops, 2 * FEW);
	close_image(&image);
	proc_close(&proc);
	child_kill(&child);
}
END_TEST

/* The stub has made its calls all the same: it is put back, not asked until a deadline. */
START_TEST(an_error_after_the_answer_does_not_hold_the_thread)
{
	struct proc proc;
	struct child child;
	struct remote_slack slack;
	struct remote_image image;
	setup(&proc, &child, &slack);
	struct stub_map map = map_of();
	fail_at = map.image + STATUS;
	ck_err(remote_map(&proc, &slack, &map, false, NULL, &image), HT_ERR_SYS);
	ck_assert_uint_eq(shared->failed, 1);
	ck_assert(!image.not_taken);
	check_unharmed(&proc, &child);
	ck_assert_uint_le(shared->stops, FEW);
	close_image(&image);
	proc_close(&proc);
	child_kill(&child);
}
END_TEST

static void occupy_one_core(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		shared->turns = 0;
}

static pid_t waiting_thread;

/* And is not preferred when it is let go. */
static void let_it_wait_for_a_core(void)
{
	(void)sched_setscheduler(waiting_thread, SCHED_IDLE, &(struct sched_param){0});
}

static void share_a_core(pid_t a, pid_t b)
{
	cpu_set_t all, one;
	int cpu = 0;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(a, sizeof(one), &one), 0);
	ck_assert_int_eq(sched_setaffinity(b, sizeof(one), &one), 0);
}

/* It would stop before its next instruction, again and again. */
START_TEST(a_thread_that_waits_for_a_core_is_not_stopped_before_it_has_run)
{
	struct proc proc;
	struct child child;
	struct remote_slack slack;
	struct remote_image image;
	setup(&proc, &child, &slack);
	struct stub_map map = map_of();
	fail_at = map.image + STATUS;
	struct child busy = child_fork(occupy_one_core, NULL);
	share_a_core(child.pid, busy.pid);
	waiting_thread = child.pid;
	before_the_answer = let_it_wait_for_a_core;
	ck_err(remote_map(&proc, &slack, &map, false, NULL, &image), HT_ERR_SYS);
	ck_assert_uint_eq(shared->failed, 1);
	ck_assert_uint_ge(shared->stops, 2);
	ck_assert_uint_eq(shared->hasty, 0);
	child_kill(&busy);
	check_unharmed(&proc, &child);
	close_image(&image);
	proc_close(&proc);
	child_kill(&child);
}
END_TEST

HT_SUITE("attach/inject/remote, held", a_thread_that_was_waiting_goes_on_to_wait,
	an_error_after_the_answer_does_not_hold_the_thread,
	a_thread_that_waits_for_a_core_is_not_stopped_before_it_has_run)
