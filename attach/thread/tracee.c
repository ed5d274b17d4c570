/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/tracee.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/rseq.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/worker.h"
#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/thread/calls.h"

/* Results of interrupted system calls inside the kernel (include/linux/errno.h). */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

/* Calls that return EINTR after a mere stop, and that can be restarted because EINTR means that
 * they did nothing. Measured; see attach/stub/DESIGN.md. select and ppoll do so if they cannot
 * write the time that is left. */
static bool repeats_after_eintr(const struct user_regs_struct *regs)
{
	long nr = regs_call(regs);
	/* KVM_RUN: a guest's processor continues where it was. */
	return CALLS_INCLUDE(nr, CALLS_RECEIVING, CALLS_SENDING, CALLS_POLLING, SYS_splice) ||
	       (nr == SYS_ioctl && (uint32_t)regs_arg(regs, 1) == KVM_RUN);
}

static bool eintr_by_our_stop(const struct user_regs_struct *regs)
{
	return regs_call(regs) >= 0 && regs_result(regs) == -EINTR && repeats_after_eintr(regs);
}

struct user_regs_struct tracee_resume_regs(const struct user_regs_struct *stopped, bool filtered)
{
	struct user_regs_struct regs = *stopped;

	if (regs_call(&regs) >= 0) {
		switch (-regs_result(&regs)) {
		case ERESTARTSYS:
		case ERESTARTNOINTR:
		case ERESTARTNOHAND:
			regs_step_back(&regs, regs_call(&regs));
			break;
		case ERESTART_RESTARTBLOCK:
			regs_step_back(&regs, filtered ? regs_call(&regs) : SYS_restart_syscall);
			break;
		case EINTR:
			if (eintr_by_our_stop(stopped))
				regs_step_back(&regs, regs_call(&regs));
			break;
		default:
			break;
		}
	}
	regs_forget_call(&regs);
	return regs;
}

/* A held thread that misses an operation behaves differently in the target: try twice, since a
 * single failure may be spurious. ESRCH: killed while it was stopped. */
static bool ptrace_twice(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	for (unsigned tries = 0; tries < 2; tries++)
		if (ptrace(request, tid, addr, data) == 0)
			return true;
	return errno == ESRCH;
}

static struct ht_err *thread_ended(pid_t tid)
{
	return ht_err_new(HT_ERR_TARGET_GONE, "thread %d ended", tid);
}

static struct ht_err *set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	struct iovec iov = {.iov_base = (void *)regs, .iov_len = sizeof(*regs)};
	if (!ptrace_twice(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov))
		return ht_err_sys(errno, "cannot set the registers of thread %d", tid);
	return NULL;
}

static const char *read_status(pid_t tid)
{
	static char text[1 << 16]; /* the file lists all groups */
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	(void)proc_file_short(AT_FDCWD, path, text, sizeof(text));
	return text;
}

/* Read now: the thread may have installed a filter since `filtered` was set. */
static bool has_filter(pid_t tid)
{
	return proc_file_number(read_status(tid), "\nSeccomp:", 16, 0) != 0;
}

/* Are all signals that have arrived, and that `mask` lets through, blocked only by the call?
 * Nothing else ends the call. */
static bool only_call_blocks(const struct tracee *tracee, uint64_t mask)
{
	if (!(tracee->call_mask & ~mask))
		return false;
	const char *status = read_status(tracee->tid);
	uint64_t came = proc_file_number(status, "\nSigPnd:", 16, 0) |
			proc_file_number(status, "\nShdPnd:", 16, 0);

	came &= proc_file_number(status, "\nSigCgt:", 16, 0) & ~mask;
	return came && !(came & ~tracee->call_mask);
}

/* Would the restart make a call that the thread's filter does not know? */
static bool restart_is_filtered(const struct tracee *tracee)
{
	const struct user_regs_struct *regs = &tracee->regs;
	return regs_call(regs) >= 0 && regs_result(regs) == -ERESTART_RESTARTBLOCK &&
	       regs_call(regs) != SYS_restart_syscall &&
	       (tracee->filtered || has_filter(tracee->tid));
}

/* The registers with which the kernel restarts an interrupted call unless a handler runs: only the
 * kernel can decide that, at the moment when the thread continues. With a handler the call returns
 * EINTR. */
static struct user_regs_struct restarted_regs(const struct tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;
	if (eintr_by_our_stop(&regs) || restart_is_filtered(tracee))
		regs_set_result(&regs, -ERESTARTNOHAND);
	return regs;
}

bool tracee_hide_eintr(struct user_regs_struct *regs)
{
	if (!eintr_by_our_stop(regs))
		return false;
	regs_set_result(regs, -ERESTARTNOHAND);
	return true;
}

/* Hides the stop at once: if heaptap dies from here on, the thread continues as if it had never
 * been stopped. */
static struct ht_err *hide_stop(struct tracee *tracee)
{
	struct user_regs_struct regs = restarted_regs(tracee);

	if (regs_result(&regs) == regs_result(&tracee->regs))
		return NULL;
	tracee->regs = regs;
	return set_regs(tracee->tid, &regs);
}

static bool is_event_stop(int status)
{
	return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

pid_t tracee_wait(pid_t tid, int options, int *ret_status)
{
	siginfo_t info = {0};

	if (waitid(tid < 0 ? P_ALL : P_PID, tid < 0 ? 0 : (id_t)tid, &info,
		    __WALL | WEXITED | WSTOPPED | WNOWAIT | options) < 0)
		return -1;
	bool stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
	/* If another thread made an exec that was not waited for, tracing cannot continue. */
	if (stopped && info.si_status >> 8 != PTRACE_EVENT_EXEC) {
		*ret_status = W_STOPCODE(info.si_status);
		return info.si_pid;
	}
	return info.si_pid ? waitpid(info.si_pid, ret_status, __WALL | WNOHANG) : 0;
}

static bool is_gone(int status)
{
	return WIFEXITED(status) || WIFSIGNALED(status);
}

static struct ht_err *pass_signal(pid_t tid, int sig)
{
	if (!ptrace_twice(PTRACE_CONT, tid, NULL, (void *)(long)sig))
		return ht_err_sys(errno, "cannot pass signal %d on to thread %d", sig, tid);
	return NULL;
}

/* The kernel returns EPERM also for a thread past its end. A look at /proc that finds no thread
 * proves the end, if a second look confirms it. */
bool tracee_has_ended(pid_t tid)
{
	const struct proc none = {.dir_fd = AT_FDCWD};
	char path[32];
	bool lives;
	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	return !ht_err_drop(proc_task_lives(&none, path, &lives)) && !lives;
}

struct ht_err *tracee_is_of(const struct proc *proc, const struct tracee *tracee, bool *ret)
{
	return proc_has_thread(proc, tracee->tid, ret);
}

static struct ht_err *seize(pid_t tid, bool suspend_seccomp, enum tracee_result *ret_result)
{
	long options = suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options) == 0)
		return NULL;
	if (errno == EPERM || errno == ESRCH) {
		*ret_result = tracee_has_ended(tid) ? TRACEE_GONE : TRACEE_REFUSED;
		return NULL;
	}
	return ht_err_sys(errno, "cannot seize thread %d", tid);
}

/* Put off the worker's death: between the interrupt and the hiding of the stop the target would
 * notice it. */
static struct ht_err *interrupt(pid_t tid, enum tracee_result *ret_result)
{
	worker_put_off_death();
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0)
		return NULL;
	int sys = errno;
	worker_resume_death();
	if (sys != ESRCH)
		return ht_err_sys(sys, "cannot interrupt thread %d", tid);
	*ret_result = tracee_has_ended(tid) ? TRACEE_GONE : TRACEE_REFUSED;
	return NULL;
}

struct ht_err *tracee_ask(
	pid_t tid, bool suspend_seccomp, struct tracee *ret, enum tracee_result *ret_result)
{
	enum tracee_result result = TRACEE_BUSY;
	HT_TRY(seize(tid, suspend_seccomp, &result));

	if (result == TRACEE_BUSY)
		HT_TRY(interrupt(tid, &result));
	*ret = (struct tracee){
		.tid = tid, .filtered = suspend_seccomp, .ran_until_ns = clock_mono_ns()};
	*ret_result = result;
	return NULL;
}

struct ht_err *tracee_release(const struct tracee *tracee)
{
	if (!ptrace_twice(PTRACE_DETACH, tracee->tid, NULL, NULL))
		return ht_err_sys(errno, "cannot release thread %d", tracee->tid);
	return NULL;
}

/* Falls back to another request: without registers the restart cannot be hidden. ESRCH: killed
 * while it was stopped. */
static struct ht_err *get_regs(struct tracee *tracee, bool *ret_gone)
{
	struct iovec iov = {.iov_base = &tracee->regs, .iov_len = sizeof(tracee->regs)};
	*ret_gone = false;
	if (ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &iov) == 0 ||
		ptrace(PTRACE_GETREGS, tracee->tid, NULL, &tracee->regs) == 0)
		return NULL;
	if (errno != ESRCH)
		return ht_err_sys(errno, "cannot read the registers of thread %d", tracee->tid);
	*ret_gone = true;
	return NULL;
}

/* Judges what waitid reported of the thread: its end, a signal, which is passed on, or a stop for
 * heaptap or with its process. After a stop, reads the registers; the thread stays held. */
static struct ht_err *judge_stop(struct tracee *tracee, int status, enum tracee_result *ret_result)
{
	*ret_result = TRACEE_BUSY;
	if (is_gone(status)) {
		*ret_result = TRACEE_GONE;
		return NULL;
	}
	if (!is_event_stop(status))
		return pass_signal(tracee->tid, WSTOPSIG(status));
	bool was_killed;
	struct ht_err *err = get_regs(tracee, &was_killed);
	*ret_result = err			    ? TRACEE_REFUSED
		      : was_killed		    ? TRACEE_GONE
		      : WSTOPSIG(status) == SIGTRAP ? TRACEE_STOPPED
						    : TRACEE_STOPPED_BY_SIGNAL;
	return *ret_result == TRACEE_STOPPED ? hide_stop(tracee) : err;
}

static struct ht_err *look(struct tracee *tracee, enum tracee_result *ret_result)
{
	uint64_t now = clock_mono_ns();
	int status = 0;
	pid_t got = tracee_wait(tracee->tid, WNOHANG, &status);

	if (got == tracee->tid) {
		struct ht_err *err = judge_stop(tracee, status, ret_result);
		if (*ret_result != TRACEE_BUSY)
			worker_resume_death();
		/* A signal that could not be passed on would be lost. */
		return err && *ret_result != TRACEE_BUSY ? ht_err_first(err, tracee_release(tracee))
							 : err;
	}
	/* After any other error the thread is still held. It may stop at any moment, and its call
	 * would return EINTR if heaptap gave the thread up. */
	if (got < 0 && errno == ECHILD)
		return ht_err_sys(errno, "cannot wait for thread %d", tracee->tid);
	tracee->ran_until_ns = now;
	*ret_result = TRACEE_BUSY;
	return NULL;
}

struct ht_err *tracee_poll(struct tracee *tracee, enum tracee_result *ret_result)
{
	HT_TRY(look(tracee, ret_result));
	/* Detached in a group-stop, the thread stays stopped. */
	if (*ret_result == TRACEE_STOPPED_BY_SIGNAL)
		HT_TRY(tracee_release(tracee));
	return NULL;
}

/* A thread on another core stops within microseconds; one that waits for our core needs it. */
#define LOOKS_AT_ONCE 3u

static struct ht_err *poll_until(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result)
{
	for (unsigned round = 0;; round++) {
		struct ht_err *err = look(tracee, ret_result);
		if (err || *ret_result != TRACEE_BUSY || clock_mono_ns() > deadline_mono_ns)
			return err;
		if (round + 1 >= LOOKS_AT_ONCE)
			worker_await_stop();
	}
}

struct ht_err *tracee_stop(pid_t tid, uint64_t deadline_mono_ns, bool suspend_seccomp,
	struct tracee *ret, enum tracee_result *ret_result)
{
	struct ht_err *err = tracee_ask(tid, suspend_seccomp, ret, ret_result);
	if (err || *ret_result != TRACEE_BUSY)
		return err;
	HT_TRY(poll_until(ret, deadline_mono_ns, ret_result));
	if (*ret_result == TRACEE_STOPPED_BY_SIGNAL)
		HT_TRY(tracee_release(ret));
	return NULL;
}

struct ht_err *tracee_release_at(struct tracee *tracee, const struct user_regs_struct *regs)
{
	struct ht_err *err = set_regs(tracee->tid, regs);
	return ht_err_first(err, tracee_release(tracee));
}

struct ht_err *tracee_signal_mask(const struct tracee *tracee, uint64_t *ret)
{
	for (unsigned tries = 0; tries < 2; tries++)
		if (ptrace(PTRACE_GETSIGMASK, tracee->tid, (void *)sizeof(*ret), ret) == 0)
			return NULL;
	if (errno == ESRCH)
		return thread_ended(tracee->tid);
	return ht_err_sys(errno, "cannot read the signal mask of thread %d", tracee->tid);
}

static struct ht_err *set_signal_mask(pid_t tid, uint64_t mask)
{
	if (!ptrace_twice(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask))
		return ht_err_sys(errno, "cannot set the signal mask of thread %d", tid);
	return NULL;
}

struct ht_err *tracee_divert(struct tracee *tracee, const struct user_regs_struct *regs)
{
	/* The order matters: if heaptap dies in between, the thread runs to code that restores its
	 * mask. */
	struct ht_err *err = set_regs(tracee->tid, regs);
	HT_THEN(err, set_signal_mask(tracee->tid, UINT64_MAX));
	if (err)
		return ht_err_first(err, tracee_release(tracee));
	return pass_signal(tracee->tid, 0);
}

struct ht_err *tracee_put_back(const struct tracee *as_stopped, uint64_t signal_mask)
{
	/* The order matters: see tracee_divert. */
	struct ht_err *err = set_signal_mask(as_stopped->tid, signal_mask);
	/* Another thread may have installed a filter since. */
	struct user_regs_struct regs = restarted_regs(as_stopped);
	if (only_call_blocks(as_stopped, signal_mask))
		regs = tracee_resume_regs(&regs, as_stopped->filtered);
	HT_THEN(err, set_regs(as_stopped->tid, &regs));
	return ht_err_first(err, tracee_release(as_stopped));
}

struct ht_err *tracee_run(struct tracee *tracee, const struct user_regs_struct *regs)
{
	struct ht_err *err = set_regs(tracee->tid, regs);
	if (err)
		return ht_err_first(err, tracee_release(tracee));
	return pass_signal(tracee->tid, 0);
}

struct ht_err *tracee_pass_signals(struct tracee *tracee)
{
	int status = 0;
	if (tracee_wait(tracee->tid, WNOHANG, &status) != tracee->tid)
		return NULL;
	if (is_gone(status))
		return thread_ended(tracee->tid);
	return pass_signal(tracee->tid, is_event_stop(status) ? 0 : WSTOPSIG(status));
}

struct ht_err *tracee_stop_again(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result)
{
	*ret_result = TRACEE_BUSY;
	struct ht_err *err = interrupt(tracee->tid, ret_result);
	if (err || *ret_result != TRACEE_BUSY)
		return err;
	err = poll_until(tracee, deadline_mono_ns, ret_result);
	if (*ret_result == TRACEE_STOPPED_BY_SIGNAL)
		*ret_result = TRACEE_STOPPED;
	return err;
}

/* Reads a word, or sets errno. Tries twice, like ptrace_twice: a spurious failure would make the
 * process look like another. */
static uint64_t peek(pid_t tid, raddr_t addr)
{
	uint64_t word = 0;

	for (unsigned tries = 0; tries < 2; tries++) {
		errno = 0;
		word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)addr, NULL);
		if (!errno)
			break;
	}
	return word;
}

struct ht_err *tracee_check_memory(
	const struct tracee *tracee, const struct proc *proc, raddr_t addr)
{
	uint64_t wanted;
	size_t got = 0;
	struct ht_err *err = proc_check_same(proc);
	HT_THEN(err, memory_read_own(proc, addr, &wanted, sizeof(wanted), &got));
	if (!err && got != sizeof(wanted))
		err = ht_err_sys(EIO, "cannot read the attach code at %lx", (unsigned long)addr);
	if (err)
		return err;
	uint64_t word = peek(tracee->tid, addr);
	if (errno && errno != ESRCH && errno != EIO)
		return ht_err_sys(errno, "cannot read the memory of thread %d", tracee->tid);
	bool is_its = false;
	if (!errno && word == wanted)
		err = tracee_is_of(proc, tracee, &is_its);
	if (!err && !is_its)
		err = ht_err_new(HT_ERR_TARGET_GONE,
			"thread %d no longer runs in the memory of process %d", tracee->tid,
			proc->pid);
	return err;
}

struct ht_err *tracee_in_rseq(const struct proc *proc, const struct tracee *tracee, bool *ret)
{
	struct __ptrace_rseq_configuration config = {0};

	*ret = false;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tracee->tid, (void *)sizeof(config), &config) < 0)
		return NULL; /* before Linux 5.13, where user space rarely uses rseq */
	if (!config.rseq_abi_pointer)
		return NULL;
	uint64_t section_addr;
	struct ht_err *err = memory_read_u64(
		proc, config.rseq_abi_pointer + offsetof(struct rseq, rseq_cs), &section_addr);
	if (err || !section_addr)
		return err;
	struct rseq_cs section;
	err = memory_read(proc, section_addr, &section, sizeof(section));
	if (err) {
		/* The library may just have been unmapped: try another moment, or another
		 * thread. */
		ht_err_free(err);
		*ret = true;
		return NULL;
	}
	*ret = regs_pc(&tracee->regs) - section.start_ip < section.post_commit_offset;
	return NULL;
}
