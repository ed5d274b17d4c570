/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/stopcost.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_status.h"
#include "attach/process/descriptor.h"
#include "attach/thread/calls.h"

#define PIECES_MAX 64u
#define TERMINALS  0x54 /* type of terminal requests, and of FIONREAD and the like */

static enum stopcost timed(bool has_timeout)
{
	return has_timeout ? STOPCOST_LATE : STOPCOST_REPEAT;
}

static enum stopcost restarted(bool has_timeout, bool filtered)
{
	return has_timeout && filtered ? STOPCOST_LATE : STOPCOST_RESTART_BLOCK;
}

static enum stopcost on_descriptor(const struct proc *proc, pid_t tid, uint64_t fd, int option)
{
	return descriptor_has_timeout(proc, tid, (int)fd, option) ? STOPCOST_LATE
								  : STOPCOST_RESTART;
}

static enum stopcost of_splice(const struct proc *proc, pid_t tid, const struct proc_syscall *call)
{
	enum stopcost in = on_descriptor(proc, tid, call->arg[0], SO_RCVTIMEO);
	return in == STOPCOST_LATE ? in : on_descriptor(proc, tid, call->arg[2], SO_SNDTIMEO);
}

/* After a stop, a call that has submitted something would return that number at once; a timeout is
 * relative, and would begin anew. */
static enum stopcost of_io_uring(const struct proc_syscall *call)
{
	bool submits = call->arg[1] != 0;
	return timed(submits || call->arg[3] & IORING_ENTER_EXT_ARG);
}

static enum stopcost of_futex(const struct proc_syscall *call, bool filtered)
{
	bool relative = ((int)call->arg[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
	return call->arg[3] ? restarted(relative, filtered) : STOPCOST_RESTART;
}

/* Total of `count` pieces of memory that the call names; if they cannot be read, assume much. */
static uint64_t bytes_of(const struct proc *proc, raddr_t at, uint64_t count)
{
	struct iovec piece[PIECES_MAX];
	size_t got = 0;
	uint64_t bytes = 0;
	if (count > PIECES_MAX)
		return UINT64_MAX;
	size_t want = (size_t)count * sizeof(piece[0]);
	ht_err_free(memory_read_some(proc, at, piece, want, &got));
	if (got < want)
		return UINT64_MAX;
	for (size_t i = 0; i < count; i++)
		bytes += piece[i].iov_len;
	return bytes;
}

static uint64_t bytes_of_message(const struct proc *proc, raddr_t at)
{
	struct msghdr message;
	size_t got = 0;
	ht_err_free(memory_read_some(proc, at, &message, sizeof(message), &got));
	return got == sizeof(message)
		       ? bytes_of(proc, (raddr_t)(uintptr_t)message.msg_iov, message.msg_iovlen)
		       : UINT64_MAX;
}

/* Pipes and AF_UNIX sockets take PIPE_BUF bytes as a whole. */
static bool may_be_parted(const struct proc *proc, pid_t tid, uint64_t fd, uint64_t bytes)
{
	return bytes > PIPE_BUF || (bytes > 1 && descriptor_takes_parts(proc, tid, (int)fd));
}

/* May a read of `bytes` have taken some and wait for more? */
static bool may_gather(const struct proc *proc, pid_t tid, uint64_t fd, uint64_t bytes)
{
	return bytes > 1 && descriptor_gathers(proc, tid, (int)fd);
}

/* May the call have done part of its work? Then a stop would make it return that part, although
 * calls return early only for signals, and programs rely on that: a large write(2) into a pipe, a
 * recv(2) of everything. */
static bool is_partial(const struct proc *proc, pid_t tid, const struct proc_syscall *call)
{
	const uint64_t *arg = call->arg;
	switch (call->nr) {
	case SYS_read:
		return may_gather(proc, tid, arg[0], arg[2]);
	case SYS_readv:
	case SYS_preadv2:
		return may_gather(proc, tid, arg[0], bytes_of(proc, arg[1], arg[2]));
	case SYS_write:
	case SYS_sendto:
		return may_be_parted(proc, tid, arg[0], arg[2]);
	case SYS_writev:
	case SYS_pwritev2:
		return may_be_parted(proc, tid, arg[0], bytes_of(proc, arg[1], arg[2]));
	case SYS_sendmsg:
		return may_be_parted(proc, tid, arg[0], bytes_of_message(proc, arg[1]));
	case SYS_sendfile:
		return may_be_parted(proc, tid, arg[0], arg[3]);
	case SYS_splice:
		return may_be_parted(proc, tid, arg[2], arg[4]);
	case SYS_tee:
		return arg[2] > PIPE_BUF;
	case SYS_vmsplice:
		return bytes_of(proc, arg[1], arg[2]) > PIPE_BUF;
	case SYS_recvfrom:
		return arg[3] & MSG_WAITALL || may_gather(proc, tid, arg[0], arg[2]);
	case SYS_recvmsg:
		return arg[2] & MSG_WAITALL ||
		       may_gather(proc, tid, arg[0], bytes_of_message(proc, arg[1]));
	case SYS_recvmmsg:
		return arg[2] > 1 && !(arg[3] & MSG_WAITFORONE);
	case SYS_sendmmsg:
		return arg[2] > 1;
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return (int64_t)arg[1] > 1;
	default:
		return false;
	}
}

/* A driver may react to a stop in any way: EINTR, a part, the end of a block device (NBD_DO_IT).
 * Terminals continue, except tcdrain(3) and its like, which return EINTR for any stop until a
 * serial line has sent everything. */
static enum stopcost of_ioctl(uint64_t request)
{
	if ((uint32_t)request == KVM_RUN)
		return STOPCOST_REPEAT;
	if ((request >> 8 & 0xff) != TERMINALS)
		return STOPCOST_NEVER;
	switch (request & 0xffff) {
	case TCSBRK:
	case TCSBRKP:
	case TCSETAW:
	case TCSETAF:
	case TCSETSW:
	case TCSETSF:
	case 0x542c: /* TCSETSW2 */
	case 0x542d: /* TCSETSF2 */
		return STOPCOST_NEVER;
	default:
		return STOPCOST_RESTART;
	}
}

/* A close with SO_LINGER would end at once and cannot be restarted; an fallocate in tmpfs before
 * Linux 6.18 returns EINTR for any stop. */
#define NEVER_STOPPED                                                                              \
	SYS_vfork, SYS_clone, SYS_clone3, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group,      \
		SYS_ptrace, SYS_close, SYS_close_range, SYS_dup2, SYS_dup3, SYS_fallocate
/* select, pselect6 and ppoll restart with the time that is left, which the kernel writes to the
 * caller's memory. */
#define REPEATED                                                                                   \
	SYS_semop, SYS_msgrcv, SYS_msgsnd, SYS_select, SYS_pselect6, SYS_ppoll, SYS_pause,         \
		SYS_rt_sigsuspend

static enum stopcost of_call(
	const struct proc *proc, pid_t tid, const struct proc_syscall *call, bool filtered)
{
	const uint64_t *arg = call->arg;
	if (CALLS_INCLUDE(call->nr, NEVER_STOPPED))
		return STOPCOST_NEVER;
	if (CALLS_INCLUDE(call->nr, REPEATED))
		return STOPCOST_REPEAT;
	if (CALLS_INCLUDE(call->nr, CALLS_RECEIVING))
		return on_descriptor(proc, tid, arg[0], SO_RCVTIMEO);
	if (CALLS_INCLUDE(call->nr, CALLS_SENDING))
		return on_descriptor(proc, tid, arg[0], SO_SNDTIMEO);
	switch (call->nr) {
	case SYS_ioctl:
		return of_ioctl(arg[1]);
	case SYS_nanosleep:
		return restarted(true, filtered);
	case SYS_clock_nanosleep:
		return restarted(!((int)arg[1] & TIMER_ABSTIME), filtered);
	case SYS_poll:
		return restarted((int)arg[2] > 0, filtered);
	case SYS_restart_syscall:
		return STOPCOST_RESTART_BLOCK;
	case SYS_futex:
		return of_futex(call, filtered);
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return timed((int)arg[3] >= 0);
	case SYS_epoll_pwait2:
	case SYS_semtimedop:
		return timed(arg[3] != 0);
	case SYS_rt_sigtimedwait:
		return timed(arg[2] != 0);
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return timed(arg[4] != 0);
	case SYS_io_uring_enter:
		return of_io_uring(call);
	case SYS_splice:
		return of_splice(proc, tid, call);
	default:
		return STOPCOST_RESTART;
	}
}

/* Does the thread wait for an answer of a program? A seccomp supervisor (SECCOMP_RET_USER_NOTIF)
 * may have acted already: a stop discards its answer and asks again. A FUSE server learns of the
 * interruption and may end the call with EINTR. False if the kernel does not tell where the thread
 * waits. */
static bool awaits_answer(const struct proc *proc, pid_t tid)
{
	char path[32], where[64];
	snprintf(path, sizeof(path), "task/%d/wchan", tid);
	(void)proc_file_short(proc->dir_fd, path, where, sizeof(where));
	return strstr(where, "seccomp") || strcmp(where, "request_wait_answer") == 0;
}

/* A call that waits for a FUSE server has STOPCOST_RESTART, and only filtered threads have a
 * supervisor: other threads and costs need no look at where the thread waits. */
static enum stopcost of_waiting(
	const struct proc *proc, pid_t tid, const struct proc_syscall *call, bool filtered)
{
	enum stopcost cost =
		is_partial(proc, tid, call) ? STOPCOST_NEVER : of_call(proc, tid, call, filtered);
	bool may_await = filtered || cost == STOPCOST_RESTART;
	return may_await && awaits_answer(proc, tid) ? STOPCOST_NEVER : cost;
}

enum stopcost stopcost_of(
	const struct proc *proc, pid_t tid, const struct proc_syscall *call, bool filtered)
{
	switch (call->where) {
	case PROC_RUNNING:
		return STOPCOST_RUNNING;
	case PROC_IN_SYSCALL:
		return of_waiting(proc, tid, call, filtered);
	case PROC_BLOCKED_ELSEWHERE:
		return STOPCOST_RESTART;
	case PROC_THREAD_GONE:
		break;
	}
	return STOPCOST_NEVER;
}

/* A thread with no CPU time at all has not begun, or the kernel does not tell. */
static bool is_unknown(const struct stopcost_seen *seen)
{
	return !seen->known || (!seen->turns.run_ns && !seen->turns.count);
}

static uint64_t sleeps_of(const struct proc *proc, pid_t tid)
{
	struct proc_status status = {0};
	ht_err_free(proc_status(proc, tid, &status));
	return status.sleeps;
}

bool stopcost_is_timely(
	const struct proc *proc, pid_t tid, enum stopcost cost, struct stopcost_seen *seen)
{
	struct stopcost_seen before = *seen;

	if (cost < STOPCOST_RUNNING)
		return true;
	struct ht_err *err = proc_turns_read(proc, tid, &seen->turns);
	seen->known = !err;
	seen->was_running = cost == STOPCOST_RUNNING;
	/* Between two looks the thread may have entered a call and woken again. */
	seen->sleeps = seen->was_running ? sleeps_of(proc, tid) : 0;
	ht_err_free(err);
	seen->running_looks = seen->was_running ? before.running_looks + 1 : 0;
	if (is_unknown(seen))
		return seen->running_looks >= STOPCOST_MOVE_LOOKS;
	if (!before.known || !before.was_running || before.sleeps != seen->sleeps)
		seen->running_since_ns = seen->turns.run_ns;
	if (!before.known || !seen->known)
		return false;
	if (cost == STOPCOST_RUNNING)
		return before.was_running &&
		       seen->turns.run_ns - seen->running_since_ns >= STOPCOST_MOVE_NS;
	return before.turns.run_ns != seen->turns.run_ns || before.turns.count != seen->turns.count;
}
