/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread of the target, held by ptrace: seized and interrupted, never PTRACE_ATTACHed, so that
 * the death of the tracer at any instant lets it run on. To be used only from a worker process
 * (worker.h): the exit of a tracer is the one way to give up a thread that does not stop.
 */
#pragma once

#include <sys/user.h>

#include "attach/proc/proc.h"
#include "attach/thread/regs.h"

struct tracee {
	pid_t tid;
	struct user_regs_struct regs; /* as it was stopped; EINTR of the stop alone is hidden */
	bool filtered;		      /* it has, or may have, a seccomp filter */
	uint64_t ran_until_ns;	      /* CLOCK_MONOTONIC: when it was last seen not stopped by us */
	uint64_t call_mask;	      /* the signals it blocks within its call: held_judge */
};

enum tracee_result {
	TRACEE_STOPPED,
	TRACEE_GONE, /* the thread ended */
	TRACEE_BUSY, /* not stopped yet. At a deadline (vfork, D state): exit the worker */
	TRACEE_STOPPED_BY_SIGNAL, /* it is in a group-stop (SIGSTOP); released again */
	TRACEE_REFUSED,		  /* another tracer holds it (or we may not trace it) */
};

/*
 * Seizes thread `tid` and asks it to stop, without waiting: many threads can be asked, each is then
 * looked at with tracee_poll. TRACEE_BUSY in `ret_result` means asked. `suspend_seccomp`: system
 * calls of the thread pass its seccomp filter until release (needs CAP_SYS_ADMIN).
 */
HT_MUST_CHECK
struct ht_err *tracee_ask(
	pid_t tid, bool suspend_seccomp, struct tracee *ret, enum tracee_result *ret_result);

/*
 * What waitpid would say of thread `tid`, or of any that we trace (-1), but a stop keeps its
 * signal: waitpid takes that out, and if we died before we passed it on, the kernel would drop it.
 * With WNOHANG in `options` 0: nothing yet. Who has ended is reaped. -1 with errno as waitid(2).
 */
pid_t tracee_wait(pid_t tid, int options, int *ret_status);

/* Has the thread ended, as far as two looks tell? For who may not trace one: the kernel says the
 * same of both. */
bool tracee_has_ended(pid_t tid);

/* Is it a thread of that process? A number that was read before may be another's by now; once
 * seized it cannot be. */
HT_MUST_CHECK
struct ht_err *tracee_is_of(const struct proc *proc, const struct tracee *tracee, bool *ret);

/*
 * Has it stopped? If so, its registers are read, and a system call that the stop alone made return
 * EINTR (epoll_wait, timed recv and others that the kernel does not restart by itself) is marked to
 * be made again, unless a signal handler runs before: then it does return EINTR, as it would have
 * without us. Signals that arrive meanwhile are delivered to it.
 */
HT_MUST_CHECK
struct ht_err *tracee_poll(struct tracee *tracee, enum tracee_result *ret_result);

/* Both, until the deadline. Anything but TRACEE_STOPPED and TRACEE_BUSY leaves nothing held. */
HT_MUST_CHECK
struct ht_err *tracee_stop(pid_t tid, uint64_t deadline_mono_ns, bool suspend_seccomp,
	struct tracee *ret, enum tracee_result *ret_result);

/* Lets the thread go on from `regs`, and forgets it. */
HT_MUST_CHECK
struct ht_err *tracee_release_at(struct tracee *tracee, const struct user_regs_struct *regs);

/* Lets the thread go on where it was. */
HT_MUST_CHECK
struct ht_err *tracee_release(struct tracee *tracee);

/* The signals that the stopped thread blocks; within ppoll(2) and the like, those it blocks
 * outside. HT_ERR_TARGET_GONE: it was killed while it was stopped. */
HT_MUST_CHECK
struct ht_err *tracee_signal_mask(const struct tracee *tracee, uint64_t *ret);

/*
 * Sends the stopped thread to `regs` with all its signals blocked: what runs there must restore the
 * mask, and everything else, by itself. It is still traced then, for tracee_pass_signals.
 */
HT_MUST_CHECK
struct ht_err *tracee_divert(struct tracee *tracee, const struct user_regs_struct *regs);
/* Ends that for a thread that is stopped again: it goes on as tracee_release would have let it in
 * the state `as_stopped`, with its mask of then. A signal that only its call blocks is handled, and
 * the call goes on, as the kernel does it after a stop. */
HT_MUST_CHECK
struct ht_err *tracee_put_back(const struct tracee *as_stopped, uint64_t signal_mask);

/* Lets the thread run from `regs`, still traced. Its signals wait for tracee_pass_signals. */
HT_MUST_CHECK
struct ht_err *tracee_run(struct tracee *tracee, const struct user_regs_struct *regs);
/* Delivers what has arrived for the running thread; to be called again and again. */
HT_MUST_CHECK
struct ht_err *tracee_pass_signals(struct tracee *tracee);
/* Stops it again, as tracee_stop does, but holds it also when its process is being stopped. */
HT_MUST_CHECK
struct ht_err *tracee_stop_again(
	struct tracee *tracee, uint64_t deadline_mono_ns, enum tracee_result *ret_result);

/* Does the stopped thread belong to `proc`, and run in the memory that proc_open_mem was done on?
 * Its number may have been used again, or the process become another program, before we held it.
 * `addr`: where both show the same, and a program of the same kind would not. */
HT_MUST_CHECK
struct ht_err *tracee_check_memory(
	const struct tracee *tracee, const struct proc *proc, raddr_t addr);

/*
 * The registers with which the interrupted thread continues when it is not the kernel that restarts
 * its system call: a restart that is due is spelled out (rax, rip), orig_rax is -1. Follows
 * arch/x86/kernel/signal.c, arch_do_signal_or_restart, but for restart_syscall(2) of a thread that
 * is `filtered`: filters forget it, and would kill the thread for it. It makes the call anew, and
 * so waits longer by what it has waited already.
 */
struct user_regs_struct tracee_resume_regs(const struct user_regs_struct *stopped, bool filtered);

/* Of a thread that stopped as a signal was on its way to it: would its call return EINTR for that
 * alone, even where nothing handles the signal? Makes the kernel's own "again, unless a handler
 * runs" of it; false: there is nothing to be changed. */
bool tracee_undisturb(struct user_regs_struct *regs);

/* Is the stopped thread inside a restartable sequence (rseq(2))? Moving it would commit it
 * unprotected. */
HT_MUST_CHECK
struct ht_err *tracee_in_rseq(const struct proc *proc, const struct tracee *tracee, bool *ret);
