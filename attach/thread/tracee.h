/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread of the target under ptrace: seized and interrupted, never PTRACE_ATTACHed, so that the
 * tracer's death at any instant lets it run on. Only for workers: a thread that does not stop can
 * be given up only by the exit of its tracer.
 */
#pragma once

#include <sys/user.h>

#include "attach/proc/proc.h"
#include "attach/thread/regs.h"

struct tracee {
	pid_t tid;
	/* as they were at the stop; only the EINTR that the stop caused is hidden */
	struct user_regs_struct regs;
	bool filtered;	       /* the thread has, or may have, a seccomp filter */
	uint64_t ran_until_ns; /* CLOCK_MONOTONIC: when the thread was last seen running */
	uint64_t call_mask;    /* the signals that the thread blocks during its call, set by
				  recheck_judge; 0: unknown */
};

enum tracee_result {
	TRACEE_STOPPED,
	TRACEE_GONE, /* the thread has ended */
	TRACEE_BUSY, /* not stopped yet. At the deadline (vfork, D state) exit the worker */
	TRACEE_STOPPED_BY_SIGNAL, /* in a group-stop (SIGSTOP); released again */
	TRACEE_REFUSED,		  /* another tracer holds it, or we may not trace it */
};

/* Seizes thread `tid` and asks it to stop, without waiting. Several threads can be asked before
 * tracee_poll looks at each. TRACEE_BUSY in `*ret_result`: asked. `suspend_seccomp`: system calls
 * of the thread pass its filter until release (needs CAP_SYS_ADMIN). */
HT_MUST_CHECK
struct ht_err *tracee_ask(
	pid_t tid, bool suspend_seccomp, struct tracee *ret, enum tracee_result *ret_result);

/* As waitpid for thread `tid`, or for any traced thread (-1), but a stop keeps its signal: waitpid
 * would take the signal, and if heaptap died before it passed the signal on, the kernel would drop
 * it. With WNOHANG in `options`, 0: nothing yet. Reaps a thread that has ended. -1 with errno as
 * waitid(2). */
pid_t tracee_wait(pid_t tid, int options, int *ret_status);

/* Has the thread ended, by two looks at /proc? For errors of ptrace that mean either that or a
 * missing right. */
bool tracee_has_ended(pid_t tid);

/* Does the thread belong to `proc`? A number read earlier may belong to another process by now; a
 * seized thread keeps its number. */
HT_MUST_CHECK
struct ht_err *tracee_is_of(const struct proc *proc, const struct tracee *tracee, bool *ret);

/* Has the thread stopped? Then reads its registers. If only the stop makes its system call return
 * EINTR (epoll_wait, a timed recv and others that the kernel does not restart), sets the call up
 * for a restart. If a signal handler runs first, the call returns EINTR, as it would have without
 * heaptap. Passes on signals that arrive meanwhile. */
HT_MUST_CHECK
struct ht_err *tracee_poll(struct tracee *tracee, enum tracee_result *ret_result);

/* tracee_ask, then tracee_poll until the deadline. Holds the thread only after TRACEE_STOPPED and
 * TRACEE_BUSY. */
HT_MUST_CHECK
struct ht_err *tracee_stop(pid_t tid, uint64_t deadline_mono_ns, bool suspend_seccomp,
	struct tracee *ret, enum tracee_result *ret_result);

/* Releases the thread at `regs`; if these cannot be set, where it stopped, with an error. */
HT_MUST_CHECK
struct ht_err *tracee_release_at(struct tracee *tracee, const struct user_regs_struct *regs);

/* Releases the thread where it stopped. */
HT_MUST_CHECK
struct ht_err *tracee_release(const struct tracee *tracee);

/* The signals that the stopped thread blocks; within ppoll(2) and the like, those that it blocks
 * outside of the call. HT_ERR_TARGET_GONE: it was killed. */
HT_MUST_CHECK
struct ht_err *tracee_signal_mask(const struct tracee *tracee, uint64_t *ret);

/* Runs the stopped thread at `regs`, still traced, with all signals blocked. The code there must
 * restore the signal mask and everything else. Call tracee_pass_signals meanwhile. If the registers
 * or the mask cannot be set, releases the thread. */
HT_MUST_CHECK
struct ht_err *tracee_divert(struct tracee *tracee, const struct user_regs_struct *regs);
/* Undoes tracee_divert for a thread that has stopped again: it continues from `as_stopped` as after
 * tracee_release, with that signal mask. A signal that only its call blocks is handled and the call
 * goes on, as the kernel does after a stop. */
HT_MUST_CHECK
struct ht_err *tracee_put_back(const struct tracee *as_stopped, uint64_t signal_mask);

/* Runs the thread at `regs`, still traced. Call tracee_pass_signals meanwhile. If the registers
 * cannot be set, releases the thread. */
HT_MUST_CHECK
struct ht_err *tracee_run(struct tracee *tracee, const struct user_regs_struct *regs);
/* Delivers the signals that have arrived for the running thread. Call it repeatedly. */
HT_MUST_CHECK
struct ht_err *tracee_pass_signals(struct tracee *tracee);
/* As tracee_stop for a thread that runs traced, but also holds it while its process is in a
 * group-stop. */
HT_MUST_CHECK
struct ht_err *tracee_stop_again(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result);

/* HT_ERR_TARGET_GONE unless the stopped thread belongs to `proc` and runs in the memory that
 * proc_open_mem opened: before the stop, its number may have been reused or the process may have
 * made an exec. `addr`: an address where the contents tell programs of this kind apart. */
HT_MUST_CHECK
struct ht_err *tracee_check_memory(
	const struct tracee *tracee, const struct proc *proc, raddr_t addr);

/* The registers with which the interrupted thread continues if heaptap, not the kernel, restarts
 * its call: a due restart is spelled out in rax and rip, and orig_rax is -1. Follows
 * arch_do_signal_or_restart of arch/x86/kernel/signal.c, except for restart_syscall(2) of a
 * `filtered` thread: a filter may not know that call and would kill the thread. Such a thread makes
 * its call anew and waits longer, by the time waited so far. */
struct user_regs_struct tracee_resume_regs(const struct user_regs_struct *stopped, bool filtered);

/* For a thread that stopped while a signal was on its way: would its call return EINTR for the stop
 * alone, even if no handler runs? Then changes the result into the kernel's code for a restart
 * unless a handler runs. False: nothing to change. */
bool tracee_hide_eintr(struct user_regs_struct *regs);

/* Is the stopped thread inside a restartable sequence (rseq(2))? Moving it would commit the
 * sequence without protection. */
HT_MUST_CHECK
struct ht_err *tracee_in_rseq(const struct proc *proc, const struct tracee *tracee, bool *ret);
