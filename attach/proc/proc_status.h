/* SPDX-License-Identifier: Apache-2.0
 *
 * Status, age, core and timer slack of a process and its threads.
 */
#pragma once

#include "attach/proc/proc_status_text.h"

/* Status of thread `tid`, or of the process (tid 0). For tid 0, if the main thread has ended and
 * others run on, the status of a living thread. */
HT_MUST_CHECK
struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret);
/* As proc_status for a thread of a struct proc_tids; `*ret_lives` is false if the thread has ended
 * since. */
HT_MUST_CHECK
struct ht_err *proc_status_listed(
	const struct proc *proc, pid_t tid, struct proc_status *ret, bool *ret_lives);
/* Does any thread have a seccomp filter, or seccomp's strict mode, now? Returns an error, such as
 * those of proc_tids_read, if that is unknown: after a wrong "no" a system call of heaptap could
 * kill the target. */
HT_MUST_CHECK
struct ht_err *proc_any_seccomp(const struct proc *proc, bool *ret);

/* Number of thread `tid` in its innermost PID namespace; 0: the thread has ended, or the number is
 * unknown. */
pid_t proc_ns_tid(const struct proc *proc, pid_t tid);
/* The core on which the thread runs, or ran last; -1: unknown. */
int proc_core(const struct proc *proc, pid_t tid);
/* Time since the thread began, at most one tick (10 ms) too long; 0: unknown. */
uint64_t proc_age_ns(const struct proc *proc, pid_t tid);
/* Timer slack of the thread or process `tid`; UINT64_MAX: unknown. */
uint64_t proc_timer_slack_ns(pid_t tid);
