/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/stopcost.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <linux/nbd.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procstage.h"
#include "tests/support/tmpdir.h"

#define NONE UINT64_MAX

static struct proc proc;

static enum stopcost cost(
	long nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, bool filtered)
{
	struct proc_syscall call = {
		.where = PROC_IN_SYSCALL, .nr = nr, .arg = {a0, a1, a2, a3, a4}};
	return stopcost_of(&proc, proc.pid, &call, filtered);
}

HT_TEST(a_timeout_makes_late_what_is_repeated)
{
	static const struct {
		long nr;
		uint64_t arg[5];
		enum stopcost cost, filtered;
	} row[] = {
		{SYS_epoll_wait, {0, 0, 0, 10}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_epoll_wait, {0, 0, 0, 0xffffffff}, STOPCOST_REPEAT, STOPCOST_REPEAT},
		{SYS_epoll_pwait, {0, 0, 0, NONE}, STOPCOST_REPEAT, STOPCOST_REPEAT},
		{SYS_epoll_pwait2, {0, 0, 0, 0}, STOPCOST_REPEAT, STOPCOST_REPEAT},
		{SYS_epoll_pwait2, {0, 0, 0, 0x1000}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_rt_sigtimedwait, {0, 0, 0x1000}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_rt_sigtimedwait, {0}, STOPCOST_REPEAT, STOPCOST_REPEAT},
		{SYS_semtimedop, {0, 0, 0, 0x1000}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_io_getevents, {0, 0, 0, 0, 0x1000}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_io_uring_enter, {0, 0, 1, IORING_ENTER_GETEVENTS}, STOPCOST_REPEAT,
			STOPCOST_REPEAT},
		{SYS_io_uring_enter, {0, 1, 1, IORING_ENTER_GETEVENTS}, STOPCOST_LATE,
			STOPCOST_LATE},
		{SYS_io_uring_enter, {0, 0, 1, IORING_ENTER_EXT_ARG}, STOPCOST_LATE, STOPCOST_LATE},
		{SYS_nanosleep, {0}, STOPCOST_RESTART_BLOCK, STOPCOST_LATE},
		{SYS_clock_nanosleep, {0, 0}, STOPCOST_RESTART_BLOCK, STOPCOST_LATE},
		{SYS_clock_nanosleep, {0, TIMER_ABSTIME}, STOPCOST_RESTART_BLOCK,
			STOPCOST_RESTART_BLOCK},
		{SYS_poll, {0, 0, 10}, STOPCOST_RESTART_BLOCK, STOPCOST_LATE},
		{SYS_poll, {0, 0, 0xffffffff}, STOPCOST_RESTART_BLOCK, STOPCOST_RESTART_BLOCK},
		{SYS_futex, {0, FUTEX_WAIT_PRIVATE, 0, 0x1000}, STOPCOST_RESTART_BLOCK,
			STOPCOST_LATE},
		{SYS_futex, {0, FUTEX_WAIT_BITSET, 0, 0x1000}, STOPCOST_RESTART_BLOCK,
			STOPCOST_RESTART_BLOCK},
		{SYS_futex, {0, FUTEX_WAIT, 0, 0}, STOPCOST_RESTART, STOPCOST_RESTART},
		{SYS_wait4, {0}, STOPCOST_RESTART, STOPCOST_RESTART},
		{SYS_pause, {0}, STOPCOST_REPEAT, STOPCOST_REPEAT},
		{SYS_vfork, {0}, STOPCOST_NEVER, STOPCOST_NEVER},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		const uint64_t *a = row[i].arg;
		ck_assert_msg(cost(row[i].nr, a[0], a[1], a[2], a[3], a[4], false) == row[i].cost,
			"row %zu", i);
		ck_assert_msg(
			cost(row[i].nr, a[0], a[1], a[2], a[3], a[4], true) == row[i].filtered,
			"row %zu, filtered", i);
	}
}

/* A stop would end the call with the part that is done. A transfer that a pipe takes at once has no
 * parts. */
HT_TEST(partially_done_calls_are_not_stopped)
{
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	static struct iovec few[2] = {{NULL, 4000}, {NULL, 96}},
			    many[2] = {{NULL, 4000}, {NULL, 97}};
	static const struct msghdr small = {.msg_iov = few, .msg_iovlen = 2},
				   large = {.msg_iov = many, .msg_iovlen = 2};
	const struct {
		long nr;
		uint64_t arg[5];
		bool is_partial;
	} row[] = {
		{SYS_write, {NONE, 0, 4096}, false},
		{SYS_write, {NONE, 0, 4097}, true},
		{SYS_sendto, {NONE, 0, 4097}, true},
		{SYS_sendfile, {0, 0, 0, 4097}, true},
		{SYS_splice, {0, 0, 0, 0, 4097}, true},
		{SYS_writev, {NONE, (uintptr_t)few, 2}, false},
		{SYS_writev, {NONE, (uintptr_t)many, 2}, true},
		{SYS_writev, {NONE, 0, 2}, true},
		{SYS_sendmsg, {NONE, (uintptr_t)&small}, false},
		{SYS_sendmsg, {NONE, (uintptr_t)&large}, true},
		{SYS_read, {0, 0, 1 << 20}, false},
		{SYS_recvfrom, {0, 0, 1 << 20, 0}, false},
		{SYS_recvfrom, {0, 0, 1 << 20, MSG_WAITALL}, true},
		{SYS_recvmsg, {0, 0, MSG_WAITALL}, true},
		{SYS_recvmmsg, {0, 0, 1, 0}, false},
		{SYS_recvmmsg, {0, 0, 2, 0}, true},
		{SYS_recvmmsg, {0, 0, 2, MSG_WAITFORONE}, false},
		{SYS_sendmmsg, {0, 0, 2}, true},
		{SYS_io_getevents, {0, 1, 9}, false},
		{SYS_io_getevents, {0, 2, 9}, true},
		{SYS_pwritev2, {NONE, (uintptr_t)few, 2}, false},
		{SYS_pwritev2, {NONE, (uintptr_t)many, 2}, true},
		{SYS_close, {NONE}, true},
		{SYS_fallocate, {NONE, 0, 0, 1}, true},
		{SYS_ioctl, {NONE, TCSBRK, 1}, true},
		{SYS_ioctl, {NONE, 0x402c542c}, true}, /* TCSETSW2 */
		{SYS_ioctl, {NONE, TCGETS}, false},
		{SYS_ioctl, {NONE, NBD_DO_IT}, true},
		{SYS_ioctl, {NONE, KVM_RUN}, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		const uint64_t *a = row[i].arg;
		enum stopcost told = cost(row[i].nr, a[0], a[1], a[2], a[3], a[4], false);
		ck_assert_msg((told == STOPCOST_NEVER) == row[i].is_partial, "row %zu", i);
	}
	proc_close(&proc);
}

/* Networks and terminals take a part even of a short write, as much as fits. */
HT_TEST(networks_and_terminals_take_parts)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ends[2];
	ck_assert(terminal >= 0 && tcp >= 0 && udp >= 0 && local >= 0);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	const struct {
		int fd;
		bool takes_parts;
	} row[] = {{terminal, true}, {tcp, true}, {udp, false}, {local, false}, {ends[1], false}};

	ck_no_err(proc_open(getpid(), &proc));
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		uint64_t fd = (uint64_t)row[i].fd;
		bool two = cost(SYS_write, fd, 0, 2, 0, 0, false) == STOPCOST_NEVER;
		ck_assert_msg(two == row[i].takes_parts, "row %zu", i);
		ck_assert_int_eq(cost(SYS_sendto, fd, 0, 1, 0, 0, false), STOPCOST_RESTART);
		ck_assert_int_eq(
			cost(SYS_sendto, fd, 0, PIPE_BUF + 1, 0, 0, false), STOPCOST_NEVER);
		close(row[i].fd);
	}
	close(ends[0]);
	proc_close(&proc);
}

/* Opens a terminal whose reads return after `least` bytes or `tenths` tenths of a second. */
static int open_terminal(cc_t least, cc_t tenths, tcflag_t lines)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios how;
	ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	int end = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_eq(tcgetattr(end, &how), 0);
	cfmakeraw(&how);
	how.c_lflag |= lines;
	how.c_cc[VMIN] = least;
	how.c_cc[VTIME] = tenths;
	ck_assert_int_eq(tcsetattr(end, TCSANOW, &how), 0);
	return end;
}

HT_TEST(gathering_calls_are_not_stopped)
{
	static const int ten = 10;
	struct iovec two = {NULL, 2};
	struct msghdr message = {.msg_iov = &two, .msg_iovlen = 1};
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &ten, sizeof(ten)), 0);
	const struct {
		int fd;
		enum stopcost cost;
	} row[] = {{pair[0], STOPCOST_NEVER}, {pair[1], STOPCOST_RESTART},
		{open_terminal(10, 0, 0), STOPCOST_NEVER},
		{open_terminal(10, 5, 0), STOPCOST_NEVER}, {open_terminal(0, 5, 0), STOPCOST_LATE},
		{open_terminal(1, 5, 0), STOPCOST_RESTART},
		{open_terminal(10, 5, ICANON), STOPCOST_RESTART}};

	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		uint64_t fd = (uint64_t)row[i].fd, iov = (uintptr_t)&two;
		ck_assert_msg(cost(SYS_read, fd, 0, 2, 0, 0, false) == row[i].cost, "row %zu", i);
		ck_assert_int_eq(cost(SYS_readv, fd, iov, 1, 0, 0, false), row[i].cost);
		ck_assert_int_eq(cost(SYS_preadv2, fd, iov, 1, 0, 0, false), row[i].cost);
		ck_assert_int_ne(cost(SYS_read, fd, 0, 1, 0, 0, false), STOPCOST_NEVER);
	}
	uint64_t fd = (uint64_t)pair[0], iov = (uintptr_t)&message;
	ck_assert_int_eq(cost(SYS_recvfrom, fd, 0, 2, 0, 0, false), STOPCOST_NEVER);
	ck_assert_int_eq(cost(SYS_recvmsg, fd, iov, 0, 0, 0, false), STOPCOST_NEVER);
	proc_close(&proc);
}

HT_TEST(threads_that_are_in_no_call)
{
	struct proc_syscall call = {.where = PROC_RUNNING};
	ck_assert_int_eq(stopcost_of(&proc, 0, &call, false), STOPCOST_RUNNING);
	call.where = PROC_BLOCKED_ELSEWHERE;
	ck_assert_int_eq(stopcost_of(&proc, 0, &call, false), STOPCOST_RESTART);
	call.where = PROC_THREAD_GONE;
	ck_assert_int_eq(stopcost_of(&proc, 0, &call, false), STOPCOST_NEVER);
}

/* The supervisor never answers the call. */
static void be_supervised(const void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog program = {HT_ARRAY_SIZE(code), code};
	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	child_ready(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &program) < 0);
	syscall(SYS_getpgid, 0);
}

HT_TEST(a_thread_that_waits_for_its_supervisor_is_not_stopped)
{
	struct child child = child_fork(be_supervised, NULL);
	struct proc_syscall call = {.where = PROC_RUNNING};
	ck_assert_int_eq(child.value, 0);
	ck_no_err(proc_open(child.pid, &proc));
	while (call.where != PROC_IN_SYSCALL || call.nr != SYS_getpgid)
		ck_no_err(proc_syscall_read(&proc, child.pid, &call));
	ck_assert_int_eq(stopcost_of(&proc, child.pid, &call, true), STOPCOST_NEVER);
	proc_close(&proc);
	child_kill(&child);
}

/* The kernel would report the interruption to the program that serves the file system, and most
 * such programs then end the call with EINTR. */
HT_TEST(a_thread_that_waits_for_a_file_system_of_a_program_is_not_stopped)
{
	ck_no_err(proc_open(getpid(), &proc));
	procstage_init(&proc);
	char wchan[32];
	snprintf(wchan, sizeof(wchan), "task/%d/wchan", proc.pid);
	procstage_file(wchan, "request_wait_answer");
	ck_assert_int_eq(cost(SYS_openat, 0, 0, 0, 0, 0, false), STOPCOST_NEVER);
	ck_assert_int_eq(cost(SYS_read, 1000000, 0, 0, 0, 0, false), STOPCOST_NEVER);
	procstage_file(wchan, "anon_pipe_read");
	ck_assert_int_eq(cost(SYS_openat, 0, 0, 0, 0, 0, false), STOPCOST_RESTART);
	procstage_file(wchan, "0");
	ck_assert_int_eq(cost(SYS_openat, 0, 0, 0, 0, 0, true), STOPCOST_RESTART);
	proc_close(&proc);
}

HT_TEST(sockets_tell_their_timeouts)
{
	static const struct timeval second = {.tv_sec = 1};
	int pair[2], ends[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)), 0);
	ck_assert_int_eq(setsockopt(pair[1], SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second)), 0);
	struct child child = child_fork(child_idle, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	uint64_t in = (uint64_t)pair[0], out = (uint64_t)pair[1], none = (uint64_t)ends[0];
	ck_assert_int_eq(cost(SYS_recvfrom, in, 0, 0, 0, 0, false), STOPCOST_LATE);
	ck_assert_int_eq(cost(SYS_read, in, 0, 0, 0, 0, false), STOPCOST_LATE);
	ck_assert_int_eq(cost(SYS_sendto, in, 0, 0, 0, 0, false), STOPCOST_RESTART);
	ck_assert_int_eq(cost(SYS_recvfrom, out, 0, 0, 0, 0, false), STOPCOST_RESTART);
	ck_assert_int_eq(cost(SYS_writev, out, 0, 0, 0, 0, false), STOPCOST_LATE);
	ck_assert_int_eq(cost(SYS_read, none, 0, 0, 0, 0, false), STOPCOST_RESTART);
	ck_assert_int_eq(cost(SYS_splice, in, 0, none, 0, 1, false), STOPCOST_LATE);
	ck_assert_int_eq(cost(SYS_splice, none, 0, out, 0, 1, false), STOPCOST_LATE);
	ck_assert_int_eq(cost(SYS_splice, out, 0, none, 0, 1, false), STOPCOST_RESTART);
	ck_assert_int_eq(cost(SYS_read, 1000000, 0, 0, 0, 0, false), STOPCOST_RESTART);
	proc_close(&proc);
	child_kill(&child);
}

static volatile bool *go;

static void spin_when_told(const void *arg)
{
	(void)arg;
	child_ready(0);
	while (!*go)
		usleep(1000);
	for (;;)
		__asm__ volatile("pause");
}

HT_TEST(a_thread_that_has_run_is_timely)
{
	struct stopcost_seen seen = {0};
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child = child_fork(child_idle, NULL),
		     spinning = child_fork(spin_when_told, NULL);
	child_sleeping(&child);
	ck_no_err(proc_open(child.pid, &proc));
	ck_assert(stopcost_is_timely(&proc, child.pid, STOPCOST_REPEAT, &seen));
	for (int i = 0; i < 5; i++)
		ck_assert(!stopcost_is_timely(&proc, child.pid, STOPCOST_LATE, &seen));
	proc_close(&proc);
	seen = (struct stopcost_seen){0};
	ck_no_err(proc_open(spinning.pid, &proc));
	*go = true;
	ck_assert(!stopcost_is_timely(&proc, spinning.pid, STOPCOST_RUNNING, &seen));
	while (!stopcost_is_timely(&proc, spinning.pid, STOPCOST_RUNNING, &seen))
		usleep(1000);
	ck_assert_uint_ge(seen.turns.run_ns, seen.running_since_ns + STOPCOST_MOVE_NS);
	ck_assert(stopcost_is_timely(&proc, spinning.pid, STOPCOST_RUNNING, &seen));
	/* The thread may have slept between the looks, in a call that it has just come back from.
	 */
	seen.sleeps--;
	ck_assert(!stopcost_is_timely(&proc, spinning.pid, STOPCOST_RUNNING, &seen));
	/* The thread may still be in the tail of the call in which it was last seen. */
	uint64_t before_ns = seen.turns.run_ns;
	seen.was_running = false;
	while (seen.turns.run_ns == before_ns) {
		seen.was_running = false;
		ck_assert(!stopcost_is_timely(&proc, spinning.pid, STOPCOST_RUNNING, &seen));
	}
	proc_close(&proc);
	child_kill(&child);
	child_kill(&spinning);
}

/* If not NULL, opened in the place of any schedstat: a file without CPU time ("0 0 0"), or a name
 * that does not exist. */
static const char *untold_path;

int openat(int dir_fd, const char *path, int flags, ...)
{
	const char *end = strrchr(path, '/');
	if (untold_path && end && strcmp(end, "/schedstat") == 0)
		return (int)syscall(SYS_openat, AT_FDCWD, untold_path, flags, 0);
	return (int)syscall(SYS_openat, dir_fd, path, flags, 0);
}

/* If heaptap insisted on the CPU time, it would wait for such a thread until the deadline. */
HT_TEST(a_kernel_that_tells_no_cpu_time)
{
	char *zeros = tmpdir_path("schedstat"), *none = tmpdir_path("none");
	const char *const path[] = {zeros, none};
	struct child child = child_fork(child_idle, NULL);
	FILE *file = fopen(zeros, "we");
	ck_assert_int_ge(fputs("0 0 0\n", file), 0);
	fclose(file);
	ck_no_err(proc_open(child.pid, &proc));
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		struct stopcost_seen seen = {0};
		untold_path = path[i];
		for (unsigned look = 1; look < STOPCOST_MOVE_LOOKS; look++)
			ck_assert(!stopcost_is_timely(&proc, child.pid, STOPCOST_RUNNING, &seen));
		ck_assert(!stopcost_is_timely(&proc, child.pid, STOPCOST_LATE, &seen));
		for (unsigned look = 1; look < STOPCOST_MOVE_LOOKS; look++)
			ck_assert(!stopcost_is_timely(&proc, child.pid, STOPCOST_RUNNING, &seen));
		ck_assert(stopcost_is_timely(&proc, child.pid, STOPCOST_RUNNING, &seen));
	}
	untold_path = NULL;
	proc_close(&proc);
	child_kill(&child);
	free(zeros);
	free(none);
}

HT_SUITE("attach/stopcost")
