/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target/tracee.h"

#include <elf.h>
#include <errno.h>
#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/target/clock.h"
#include "attach/target/memory.h"

/* Kernel-internal results of an interrupted system call (include/linux/errno.h). */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

#define SYSCALL_INSN_BYTES 2
#define SIGNALS_PEEKED	   32

/* Calls that return EINTR after a mere stop, and that may be made again because EINTR means that
 * they did nothing. Measured; see attach/DESIGN.md. */
static bool repeats_after_eintr(long nr)
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
		return true;
	default:
		return false;
	}
}

static bool eintr_by_our_stop(const struct user_regs_struct *regs)
{
	return (long)regs->orig_rax >= 0 && (long)regs->rax == -EINTR &&
	       repeats_after_eintr((long)regs->orig_rax);
}

struct user_regs_struct tracee_resume_regs(const struct user_regs_struct *stopped, bool filtered)
{
	struct user_regs_struct regs = *stopped;

	if ((long)regs.orig_rax >= 0) {
		switch (-(long)regs.rax) {
		case ERESTARTSYS:
		case ERESTARTNOINTR:
		case ERESTARTNOHAND:
			regs.rax = regs.orig_rax;
			regs.rip -= SYSCALL_INSN_BYTES;
			break;
		case ERESTART_RESTARTBLOCK:
			regs.rax = filtered ? regs.orig_rax : SYS_restart_syscall;
			regs.rip -= SYSCALL_INSN_BYTES;
			break;
		case EINTR:
			if (eintr_by_our_stop(stopped)) {
				regs.rax = regs.orig_rax;
				regs.rip -= SYSCALL_INSN_BYTES;
			}
			break;
		default:
			break;
		}
	}
	regs.orig_rax = (unsigned long long)-1;
	return regs;
}

static struct ht_err *set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	struct iovec iov = {.iov_base = (void *)regs, .iov_len = sizeof(*regs)};
	/* ESRCH: it was killed while it was stopped. */
	if (ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov) < 0 && errno != ESRCH)
		return ht_err_sys(errno, "cannot set the registers of thread %d", tid);
	return NULL;
}

static bool is_event_stop(int status)
{
	return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

static bool is_gone(int status)
{
	return WIFEXITED(status) || WIFSIGNALED(status);
}

static struct ht_err *pass_signal(pid_t tid, int sig)
{
	if (ptrace(PTRACE_CONT, tid, NULL, (void *)(long)sig) < 0 && errno != ESRCH)
		return ht_err_sys(errno, "cannot pass signal %d on to thread %d", sig, tid);
	return NULL;
}

static struct ht_err *seize(pid_t tid, bool suspend_seccomp, enum tracee_result *ret_result)
{
	long options = suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options) == 0)
		return NULL;
	if (errno == ESRCH) {
		*ret_result = TRACEE_GONE;
		return NULL;
	}
	if (errno == EPERM) {
		*ret_result = TRACEE_REFUSED;
		return NULL;
	}
	return ht_err_sys(errno, "cannot seize thread %d", tid);
}

struct ht_err *tracee_ask(
	pid_t tid, bool suspend_seccomp, struct tracee *ret, enum tracee_result *ret_result)
{
	enum tracee_result result = TRACEE_BUSY;
	struct ht_err *err = seize(tid, suspend_seccomp, &result);

	if (!err && result == TRACEE_BUSY && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		if (errno != ESRCH)
			return ht_err_sys(errno, "cannot interrupt thread %d", tid);
		result = TRACEE_GONE;
	}
	if (err)
		return err;
	*ret = (struct tracee){
		.tid = tid, .filtered = suspend_seccomp, .ran_until_ns = clock_mono_ns()};
	*ret_result = result;
	return NULL;
}

static struct ht_err *judge_stop(struct tracee *tracee, int status, enum tracee_result *ret_result)
{
	*ret_result = TRACEE_BUSY;
	if (is_gone(status)) {
		*ret_result = TRACEE_GONE;
		return NULL;
	}
	if (!is_event_stop(status))
		return pass_signal(tracee->tid, WSTOPSIG(status));
	if (WSTOPSIG(status) != SIGTRAP) {
		/* Detached in a group-stop, the kernel keeps it stopped. */
		*ret_result = TRACEE_STOPPED_BY_SIGNAL;
		ptrace(PTRACE_DETACH, tracee->tid, NULL, NULL);
		return NULL;
	}
	struct iovec iov = {.iov_base = &tracee->regs, .iov_len = sizeof(tracee->regs)};
	bool read = ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &iov) == 0;
	*ret_result = read ? TRACEE_STOPPED : TRACEE_GONE;
	return NULL;
}

struct ht_err *tracee_poll(struct tracee *tracee, enum tracee_result *ret_result)
{
	uint64_t now = clock_mono_ns();
	int status = 0;
	pid_t got = waitpid(tracee->tid, &status, __WALL | WNOHANG);

	if (got == tracee->tid)
		return judge_stop(tracee, status, ret_result);
	if (got < 0 && errno != EINTR)
		return ht_err_sys(errno, "cannot wait for thread %d", tracee->tid);
	tracee->ran_until_ns = now;
	*ret_result = TRACEE_BUSY;
	return NULL;
}

/* A stop takes microseconds: give the core away rather than sleep, at first. */
static void pause_between_polls(unsigned round)
{
	if (round < 50)
		sched_yield();
	else
		clock_sleep_ns(20000);
}

static struct ht_err *poll_until(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result)
{
	for (unsigned round = 0;; round++) {
		struct ht_err *err = tracee_poll(tracee, ret_result);
		if (err || *ret_result != TRACEE_BUSY || clock_mono_ns() > deadline_mono_ns)
			return err;
		pause_between_polls(round);
	}
}

struct ht_err *tracee_stop(pid_t tid, uint64_t deadline_mono_ns, bool suspend_seccomp,
	struct tracee *ret, enum tracee_result *ret_result)
{
	struct ht_err *err = tracee_ask(tid, suspend_seccomp, ret, ret_result);
	if (err || *ret_result != TRACEE_BUSY)
		return err;
	return poll_until(ret, deadline_mono_ns, ret_result);
}

static struct ht_err *detach(pid_t tid)
{
	if (ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && errno != ESRCH)
		return ht_err_sys(errno, "cannot release thread %d", tid);
	return NULL;
}

struct ht_err *tracee_release_at(struct tracee *tracee, const struct user_regs_struct *regs)
{
	struct ht_err *err = set_regs(tracee->tid, regs);
	if (err)
		return ht_err_first(err, detach(tracee->tid));
	return detach(tracee->tid);
}

/* Would the kernel make a call that the thread's filter does not know? */
static bool restart_is_filtered(const struct tracee *tracee)
{
	const struct user_regs_struct *regs = &tracee->regs;
	return tracee->filtered && (long)regs->orig_rax >= 0 &&
	       (long)regs->rax == -ERESTART_RESTARTBLOCK &&
	       (long)regs->orig_rax != SYS_restart_syscall;
}

/* Is one of the thread's, or of its process's, queued signals not blocked? */
static bool signal_is_due(pid_t tid, uint64_t blocked, uint32_t queue)
{
	siginfo_t info[SIGNALS_PEEKED];
	struct __ptrace_peeksiginfo_args args = {.flags = queue, .nr = SIGNALS_PEEKED};
	long count = ptrace(PTRACE_PEEKSIGINFO, tid, &args, info);

	for (long i = 0; i < count; i++)
		if (!(blocked >> (info[i].si_signo - 1) & 1))
			return true;
	return false;
}

bool tracee_interrupted_by_signal(const struct tracee *tracee)
{
	struct user_regs_struct resume = tracee_resume_regs(&tracee->regs, tracee->filtered);
	uint64_t blocked = 0;

	if (resume.rip == tracee->regs.rip)
		return false;
	ptrace(PTRACE_GETSIGMASK, tracee->tid, (void *)sizeof(blocked), &blocked);
	return signal_is_due(tracee->tid, blocked, 0) ||
	       signal_is_due(tracee->tid, blocked, PTRACE_PEEKSIGINFO_SHARED);
}

struct ht_err *tracee_release(struct tracee *tracee)
{
	bool repeat = eintr_by_our_stop(&tracee->regs) && !tracee_interrupted_by_signal(tracee);
	if (repeat || restart_is_filtered(tracee)) {
		struct user_regs_struct regs = tracee_resume_regs(&tracee->regs, tracee->filtered);
		return tracee_release_at(tracee, &regs);
	}
	return detach(tracee->tid);
}

struct ht_err *tracee_signal_mask(const struct tracee *tracee, uint64_t *ret)
{
	if (ptrace(PTRACE_GETSIGMASK, tracee->tid, (void *)sizeof(*ret), ret) < 0)
		return ht_err_sys(errno, "cannot read the signal mask of thread %d", tracee->tid);
	return NULL;
}

struct ht_err *tracee_run(struct tracee *tracee, const struct user_regs_struct *regs)
{
	struct ht_err *err = set_regs(tracee->tid, regs);
	if (err)
		return ht_err_first(err, detach(tracee->tid));
	if (ptrace(PTRACE_CONT, tracee->tid, NULL, NULL) < 0)
		return ht_err_sys(errno, "cannot resume thread %d", tracee->tid);
	return NULL;
}

struct ht_err *tracee_pass_signals(struct tracee *tracee)
{
	int status = 0;
	if (waitpid(tracee->tid, &status, __WALL | WNOHANG) != tracee->tid)
		return NULL;
	if (is_gone(status))
		return ht_err_new(HT_ERR_TARGET_GONE, "thread %d ended", tracee->tid);
	return pass_signal(tracee->tid, is_event_stop(status) ? 0 : WSTOPSIG(status));
}

struct ht_err *tracee_stop_again(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result)
{
	*ret_result = TRACEE_GONE;
	if (ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) < 0)
		return NULL;
	return poll_until(tracee, deadline_mono_ns, ret_result);
}

struct ht_err *tracee_in_rseq(const struct proc *proc, const struct tracee *tracee, bool *ret)
{
	struct __ptrace_rseq_configuration config = {0};

	*ret = false;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tracee->tid, (void *)sizeof(config), &config) < 0)
		return NULL; /* before Linux 5.13: user space rarely uses it there */
	if (!config.rseq_abi_pointer)
		return NULL;
	uint64_t section_addr;
	struct ht_err *err = memory_read_u64(
		proc, config.rseq_abi_pointer + offsetof(struct rseq, rseq_cs), &section_addr);
	if (err || !section_addr)
		return err;
	struct rseq_cs section;
	err = memory_read(proc, section_addr, &section, sizeof(section));
	if (err)
		return err;
	*ret = tracee->regs.rip - section.start_ip < section.post_commit_offset;
	return NULL;
}
