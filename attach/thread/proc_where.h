/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a thread is and what it has run, without stopping it.
 */
#pragma once

#include "attach/proc/proc.h"

/* /proc/PID/task/TID/syscall: where a thread is, without stopping it. */
enum proc_where { PROC_RUNNING, PROC_IN_SYSCALL, PROC_BLOCKED_ELSEWHERE, PROC_THREAD_GONE };

struct proc_syscall {
	enum proc_where where;
	long nr;
	uint64_t arg[6];
	raddr_t sp, pc; /* set unless running */
};

HT_MUST_CHECK
struct ht_err *proc_syscall_read(const struct proc *proc, pid_t tid, struct proc_syscall *ret);

/* How long a thread has run, and how often it got a core. Not told by every kernel
 * (CONFIG_SCHED_INFO): HT_ERR_SYS with ENOENT, or zeros. */
struct proc_turns {
	uint64_t run_ns, count;
};

HT_MUST_CHECK
struct ht_err *proc_turns_read(const struct proc *proc, pid_t tid, struct proc_turns *ret);

/* CPU time of a thread, as of its last tick or switch, in ns; 0 when it is gone or the kernel does
 * not tell. */
uint64_t proc_ran_ns(const struct proc *proc, pid_t tid);
/* Has it run since then, or does it not want to? True where that is not told. */
bool proc_has_run(const struct proc *proc, pid_t tid, uint64_t ran_ns);
