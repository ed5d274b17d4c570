/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a held thread directly before it is sent to the stub: it may have changed since it was
 * chosen.
 */
#pragma once

#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"
#include "attach/thread/tracee.h"

enum recheck_verdict {
	HELD_FIT,
	HELD_ELSEWHERE,	 /* cannot leave this place: try another moment or thread */
	HELD_FILTERED,	 /* it has a seccomp filter, which heaptap may not suspend */
	HELD_DISPATCHED, /* its system calls may be handed to the program (Syscall User Dispatch) */
	HELD_LIMITED,	 /* its limit on file sizes is below the agent's memory */
};

/*
 * Judges whether the held thread can run the stub, and notes in `tracee` the signals that its call
 * blocks. Suspends the thread's seccomp filter while it is held. `remains`: only the stub that
 * unmaps is to run, which a dispatched thread can do if its dispatch lets the calls pass just now;
 * NULL: the first stub.
 */
HT_MUST_CHECK
struct ht_err *recheck_judge(const struct proc *proc, struct tracee *tracee,
	const struct remote_slack *slack, const struct remote_remains *remains,
	enum recheck_verdict *ret);

/* Returns HT_ERR_REFUSED with what keeps every thread of the process from running the stub; NULL:
 * nothing does. */
HT_MUST_CHECK
struct ht_err *recheck_refuse(const struct proc *proc, pid_t tid, enum recheck_verdict verdict);

/* Is the stub's place still executable and private? */
HT_MUST_CHECK
struct ht_err *recheck_slack_runs(const struct proc *proc, const struct remote_slack *slack);
/* Refuses a place whose bytes have changed. `leaving`: accepts a stub as well, which is heaptap's
 * own, since a first stub is never written over another. */
HT_MUST_CHECK
struct ht_err *recheck_slack_holds(
	const struct proc *proc, const struct remote_slack *slack, bool leaving);
