/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a held thread directly before it is sent to the stub: it may have changed since it was
 * chosen.
 */
#pragma once

#include "attach/stub/remote_slack.h"
#include "attach/stub/remote_task.h"
#include "attach/thread/tracee.h"

enum held_verdict {
	HELD_FIT,
	HELD_ELSEWHERE,	 /* not a place to be sent away from: another moment, or another thread */
	HELD_FILTERED,	 /* it has a seccomp filter, which we may not suspend */
	HELD_DISPATCHED, /* its system calls may be handed to the program (Syscall User Dispatch) */
	HELD_LIMITED,	 /* it would be killed for making a file as long as the agent's memory */
};

/* Keeps in `tracee` what its call blocks. A filter that it has is suspended for as long as it is
 * held, and no longer. `remains`: only the stub that takes them out is to run in it, and no agent,
 * which it may where the dispatch lets its calls pass just now; NULL: the first stub. */
HT_MUST_CHECK
struct ht_err *held_judge(const struct proc *proc, struct tracee *tracee,
	const struct remote_slack *slack, const struct remote_remains *remains,
	enum held_verdict *ret);

/* What keeps each thread of the process from being used, in words: HT_ERR_REFUSED. NULL: nothing.
 */
HT_MUST_CHECK
struct ht_err *held_refuse(const struct proc *proc, pid_t tid, enum held_verdict verdict);

/* Is the stub's place still executable, and private to the process? */
HT_MUST_CHECK
struct ht_err *held_slack_runs(const struct proc *proc, const struct remote_slack *slack);
/* Refuses a place that holds other bytes than before. `leaving`: accepts a stub, too. It is
 * heaptap's own, as a first stub is never written over another. */
HT_MUST_CHECK
struct ht_err *held_slack_holds(
	const struct proc *proc, const struct remote_slack *slack, bool leaving);
