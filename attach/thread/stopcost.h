/* SPDX-License-Identifier: Apache-2.0
 *
 * The effect of a stop on the system call in which a thread waits, judged from /proc before the
 * thread is stopped.
 */
#pragma once

#include "attach/proc/clock.h"
#include "attach/proc/proc.h"
#include "attach/thread/proc_where.h"

/* How long heaptap waits for a moment in which a stop does no harm. */
#define STOPCOST_PATIENCE_NS (10 * CLOCK_NS_PER_S)

/* CPU time after which a thread has left its call, counted from the first look, even if it has just
 * woken. A stop before that counts as a signal, and the call restarts from its beginning. */
#define STOPCOST_MOVE_NS 100000u
/* Without CPU times from the kernel: the number of looks in a row that must find the thread
 * running. */
#define STOPCOST_MOVE_LOOKS 10u

/* Ascending by harm. */
enum stopcost {
	STOPCOST_RESTART,	/* the kernel restarts the call as it was */
	STOPCOST_RESTART_BLOCK, /* the kernel continues the call, by restart_syscall(2) */
	STOPCOST_REPEAT,  /* heaptap restarts the call without loss: the call has no timeout, or
			     keeps the time that is left */
	STOPCOST_RUNNING, /* the thread is in no call, or on its way out of one */
	STOPCOST_LATE,	/* a restart lengthens the wait by the time waited so far; or the call ends
			   early */
	STOPCOST_NEVER, /* the thread cannot be stopped, or must not be */
};

/* `filtered`: the thread may have a seccomp filter; then restart_syscall(2) is not used. */
enum stopcost stopcost_of(
	const struct proc *proc, pid_t tid, const struct proc_syscall *call, bool filtered);

/* The result of the last look at a thread; zeroed before the first look. */
struct stopcost_seen {
	bool known, was_running;
	unsigned running_looks; /* in a row */
	struct proc_turns turns;
	uint64_t running_since_ns; /* CPU time at the first of these looks */
	uint64_t sleeps;
};

/* Is this the moment to stop the thread? A wait that would end late must have only just begun,
 * which shows in CPU time since the last look, a moment ago. A running thread must have run for
 * STOPCOST_MOVE_NS since it was first seen running: if it stopped before it left its call, it would
 * restart a wait that is over. Without proc_turns no beginning of a wait can be seen. */
bool stopcost_is_timely(
	const struct proc *proc, pid_t tid, enum stopcost cost, struct stopcost_seen *seen);
