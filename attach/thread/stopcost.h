/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stop means to the system call in which a thread waits, judged from /proc before anybody is
 * stopped.
 */
#pragma once

#include "attach/proc/clock.h"
#include "attach/proc/proc.h"
#include "attach/thread/proc_where.h"

/* So long it is worth waiting for the moment when a stop does no harm. */
#define STOPCOST_PATIENCE_NS (10 * CLOCK_NS_PER_S)

/* So much CPU time gets a thread from where it was, out of a call that it was woken from, too.
 * Until it is out a stop counts as a signal, and the call is made again, from its beginning. */
#define STOPCOST_MOVE_NS 100000u
/* Where the kernel does not tell CPU time it is taken to be out when it was seen running so often
 * in a row. */
#define STOPCOST_MOVE_LOOKS 10u

/* In the order of preference. */
enum stopcost {
	STOPCOST_RESTART,	/* the kernel makes the call again as it was */
	STOPCOST_RESTART_BLOCK, /* it goes on with the call where it was, by restart_syscall(2) */
	STOPCOST_REPEAT,	/* we have it made again, and nothing is lost: it waits for ever */
	STOPCOST_RUNNING,	/* it is in no call, or on its way out of one */
	STOPCOST_LATE,	/* made again it ends late, by what it has waited already; or it ends now */
	STOPCOST_NEVER, /* it cannot be stopped, or must not be */
};

/* `filtered`: the thread may have a seccomp filter, for which restart_syscall(2) is not made. */
enum stopcost stopcost_of(
	const struct proc *proc, pid_t tid, const struct proc_syscall *call, bool filtered);

/* A thread when it was last looked at; zeroed before the first time. */
struct stopcost_seen {
	bool known, was_running;
	unsigned running_looks; /* in a row */
	struct proc_turns turns;
	uint64_t running_since_ns; /* of its CPU time */
	uint64_t sleeps;
};

/*
 * Is now the moment to stop it? A wait that would end late must have only just begun, and a running
 * thread must be more than just woken: stopped before it is out of its call, it would begin the
 * wait anew that is over. A wait has begun when its thread has run since it was last looked at,
 * which should be a moment ago; a running thread is out when it has run for STOPCOST_MOVE_NS since
 * it was first seen running. Where the kernel tells nothing of that (proc_turns), no wait is seen
 * to begin.
 */
bool stopcost_is_timely(
	const struct proc *proc, pid_t tid, enum stopcost cost, struct stopcost_seen *seen);
