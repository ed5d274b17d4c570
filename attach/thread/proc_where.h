/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where a thread is and how long it has run, without stopping it.
 */
#pragma once

#include "attach/proc/proc.h"

/* What /proc/PID/task/TID/syscall says of a thread. */
enum proc_where { PROC_RUNNING, PROC_IN_SYSCALL, PROC_BLOCKED_ELSEWHERE, PROC_THREAD_GONE };

struct proc_syscall {
	enum proc_where where;
	long nr; /* -1: in no system call */
	uint64_t arg[6];
	raddr_t sp, pc; /* unset while the thread runs */
};

HT_MUST_CHECK
struct ht_err *proc_syscall_read(const struct proc *proc, pid_t tid, struct proc_syscall *ret);

/* CPU time of a thread, and how often it got a core. A kernel without CONFIG_SCHED_INFO gives
 * HT_ERR_SYS with ENOENT, or zeros. */
struct proc_turns {
	uint64_t run_ns, count;
};

HT_MUST_CHECK
struct ht_err *proc_turns_read(const struct proc *proc, pid_t tid, struct proc_turns *ret);

/* CPU time of a thread in ns, as of its last tick or switch; 0: the thread has ended, or the kernel
 * does not tell. */
uint64_t proc_ran_ns(const struct proc *proc, pid_t tid);
/* Has the thread run since it had `ran_ns`, or does it not want to run? True if that is unknown. */
bool proc_has_run(const struct proc *proc, pid_t tid, uint64_t ran_ns);
