/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of attach/stub/remote's thread: a process in which a thread runs the stub,
 * and what the test does while the thread is in the stub. Included once by a test program.
 */
#pragma once

#include "attach/stub/remote.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/stub/stub_layout.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define SLOTS	     2u
#define STATUS	     (ABI_CONTROL_OFF + offsetof(struct abi_control, stub_status))
#define FD_FLOOR     100
#define THREAD_BYTES (256ull << 20) /* stack and heap of one more thread of the child, at most */

static struct shared {
	atomic_uint stops, hasty, failed, looks;
	volatile int result, error, turns;
	volatile int32_t wanted, own; /* descriptors: `own` gets the number `wanted` */
	volatile ino_t inode;	      /* of `own`, once it has that number */
	volatile pid_t beside, handled_by;
} * shared;

/* --- what the worker asks the kernel -------------------------------------------------------------
 */

/* A look is a read of the stub's status at `look_at`, an address in the target; 0: no read is one.
 * heaptap answers the stub after the first look that finds it ready. before_the_answer runs in that
 * look, and the next such look fails with ENOMEM, unless looks_succeed. */
static uint64_t look_at;
static bool looks_succeed;
static void (*before_the_answer)(void);

/* The first look waits until this thread is back in epoll_wait; 0: it does not wait. */
static pid_t seen_late;

static inline void come_late(void)
{
	while (shared->looks == 0 && child_call(seen_late) != SYS_epoll_wait)
		sched_yield();
	shared->looks++;
}

/* Returns true for the second look that finds the stub ready. */
static inline bool fails(int64_t status)
{
	static unsigned looks;
	looks += status >= STUB_READY;
	if (looks == 1 && before_the_answer)
		before_the_answer();
	return looks == 2;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	if (seen_late && (uint64_t)offset == look_at)
		come_late();
	ssize_t got = syscall(SYS_pread64, fd, buffer, length, offset);
	if (!look_at || (uint64_t)offset != look_at || got != sizeof(int64_t))
		return got;
	if (!fails(*(const int64_t *)buffer) || looks_succeed)
		return got;
	shared->failed++;
	errno = ENOMEM;
	return -1;
}

/* --- a target ----------------------------------------------------------------------------------
 */

static inline void wait_for_events(const void *arg)
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

struct fixture {
	struct proc proc;
	struct child child;
	struct remote_slack slack;
	struct remote_image image;
	struct stub_map map;
};

/* Returns the address of `bytes` that are free in the test, and in a child that has a copy of its
 * memory. THREAD_BYTES above them are free for a thread of the child. */
static inline raddr_t hole(uint64_t bytes)
{
	bytes += THREAD_BYTES;
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	munmap(at, bytes);
	return (raddr_t)(uintptr_t)at;
}

static inline void setup_with(
	struct fixture *fixture, void (*body)(const void *arg), const void *arg)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	void *page = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	fixture->slack = (struct remote_slack){
		.addr = (raddr_t)(uintptr_t)page, .bytes = sizeof(fixture->slack.original)};
	fixture->child = child_fork(body, arg);
	child_sleeping(&fixture->child);
	ck_no_err(proc_open(fixture->child.pid, &fixture->proc));
	ck_no_err(proc_open_mem(&fixture->proc));
	uint64_t bytes = abi_image_bytes(SLOTS);
	fixture->map = (struct stub_map){.image = hole(bytes),
		.image_bytes = bytes,
		.fd_floor = FD_FLOOR,
		.lease_ns = 10 * CLOCK_NS_PER_S,
		.name = "test"};
}

static inline void setup(struct fixture *fixture)
{
	setup_with(fixture, wait_for_events, NULL);
}

static inline void teardown(struct fixture *fixture)
{
	proc_close(&fixture->proc);
	child_kill(&fixture->child);
}

static inline struct ht_err *map(struct fixture *fixture)
{
	return remote_map(
		&fixture->proc, &fixture->slack, &fixture->map, false, NULL, &fixture->image);
}

static inline void close_image(const struct remote_image *image)
{
	close(image->memfd);
	close(image->daemon_fd);
	close(image->agent_socket);
}

static inline void check_unharmed(const struct fixture *fixture)
{
	struct proc_syscall call = {0};
	struct proc_status status;
	while (call.nr != SYS_epoll_wait && !shared->turns)
		ck_no_err(proc_syscall_read(&fixture->proc, fixture->child.pid, &call));
	ck_assert_msg(!shared->turns, "%d, errno %d", shared->result, shared->error);
	ck_no_err(proc_status(&fixture->proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	ck_assert_uint_eq(status.sig_blk, 0);
}

/* --- a signal meanwhile --------------------------------------------------------------------------
 */

static pid_t signalled;

static int sent = SIGUSR1;

static inline void send_signal(void)
{
	kill(signalled, sent);
}
