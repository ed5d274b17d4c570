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

/* HT_ERR_REFUSED if the verdict keeps every thread of the process from running the stub (filter,
 * dispatch, limit); NULL: another thread or moment may do. */
HT_MUST_CHECK
struct ht_err *recheck_refuse(const struct proc *proc, pid_t tid, enum recheck_verdict verdict);

/* HT_ERR_INCOMPLETE unless the stub's place is still readable, executable and private. */
HT_MUST_CHECK
struct ht_err *recheck_slack_runs(const struct proc *proc, const struct remote_slack *slack);
/* HT_ERR_INCOMPLETE if the place's bytes have changed; HT_ERR_REFUSED if a stub is there.
 * `leaving`: accepts a stub, which is heaptap's own, since a first stub is never written over
 * another. */
HT_MUST_CHECK
struct ht_err *recheck_slack_holds(
	const struct proc *proc, const struct remote_slack *slack, bool leaving);
