/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops several threads at once and releases each after a short look. Runs in a worker.
 */
#pragma once

#include "attach/thread/tracee.h"

#define CROWD_MAX 256u

struct crowd {
	const struct proc *proc;
	const pid_t *tid;
	size_t count; /* at most CROWD_MAX */
	bool filtered;
	/* The looks are short. If there are more threads than cores, a thread that was looked at
	 * may stay held until others have stopped, for at most CROWD_HOLD_NS. */
	bool together;
	/* Called with thread `at` held; may change its registers. */
	struct ht_err *(*look)(void *context, size_t at, struct tracee *tracee);
	/* Called if thread `at` has ended or does not belong to the process. */
	void (*gone)(void *context, size_t at);
	void *context;
};

/* A thread that is released at once takes the core for a turn of some milliseconds, and threads
 * that would stop before their next instruction wait for that turn. If the thread stays held
 * instead, for less than half of a turn, those threads stop within microseconds. */
#define CROWD_HOLD_NS 1500000u

struct crowd_report {
	size_t stopped;	      /* threads that were looked at */
	uint64_t stop_max_ns; /* longest time that one of them was held */
};

/* Asks all threads to stop, looks at each as soon as it stops, and releases it at once or together
 * with others. Goes on after a failure: a thread that was asked and then left to the kernel may
 * return EINTR from its call. That can happen only to a thread that does not stop before the
 * deadline. A thread that cannot be asked is neither looked at nor reported as gone. */
HT_MUST_CHECK
struct ht_err *crowd_stop(const struct crowd *crowd, struct crowd_report *ret);
