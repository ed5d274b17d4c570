/* SPDX-License-Identifier: Apache-2.0
 *
 * What status, stat and timerslack_ns say about a process and its threads.
 */
#pragma once

#include "attach/proc/proc_status_text.h"

/* Status of the process (tid 0) or of one of its threads. Where the main thread has ended and
 * others go on, tid 0 gives what a living thread says. */
HT_MUST_CHECK
struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret);
/* As proc_status for a thread of such a list; false in `ret_lives` when it has ended since. */
HT_MUST_CHECK
struct ht_err *proc_status_listed(
	const struct proc *proc, pid_t tid, struct proc_status *ret, bool *ret_lives);
/* Has any of its threads a seccomp filter now? What cannot be told is an error, as in
 * proc_tids_read, and never a "no": a call of ours would kill the target. */
HT_MUST_CHECK
struct ht_err *proc_any_seccomp(const struct proc *proc, bool *ret);

/* The number of a thread in its innermost pid namespace; 0: it has ended, or is not told. */
pid_t proc_ns_tid(const struct proc *proc, pid_t tid);
/* The core on which the thread runs, or ran last; -1: not told. */
int proc_core(const struct proc *proc, pid_t tid);
/* How long ago it began, by up to a tick of 10 ms more; 0: not told. */
uint64_t proc_age_ns(const struct proc *proc, pid_t tid);
/* How late the timers of a thread, or process, may be; UINT64_MAX: not told. */
uint64_t proc_timer_slack_ns(pid_t tid);
