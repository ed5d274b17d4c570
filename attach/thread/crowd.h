/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops threads, all that are given at once, and lets each go when it was looked at: in a worker
 * (target/worker.h), for moments.
 */
#pragma once

#include "attach/thread/tracee.h"

#define CROWD_MAX 256u

struct crowd {
	const struct proc *proc;
	const pid_t *tid;
	size_t count; /* CROWD_MAX at most */
	bool filtered;
	/* The looks are short: where there are more threads than cores, those that were looked at
	 * may wait for others, for CROWD_HOLD_NS at most. */
	bool together;
	/* Looks at thread `at`, which is held, and may change its registers. */
	struct ht_err *(*look)(void *context, size_t at, struct tracee *tracee);
	/* Thread `at` has ended, or is none of the process's. */
	void (*gone)(void *context, size_t at);
	void *context;
};

/* A thread that goes on takes the core for a turn of some milliseconds, and the others, which would
 * stop before their next instruction, wait for that: one turn of each. Those that stop while it is
 * held need microseconds, so that this is less than half of a turn that it would have waited. */
#define CROWD_HOLD_NS 1500000u

struct crowd_report {
	size_t stopped;	      /* threads that were looked at */
	uint64_t stop_max_ns; /* longest time that one was held */
};

/*
 * All are asked to stop; each is looked at and released the moment it does, or with those of its
 * moment, also when something has failed: one that was asked and is left to the kernel may return
 * EINTR. That remains for those that do not stop until a deadline. Who can be asked no more, or not
 * yet, is neither looked at nor gone.
 */
HT_MUST_CHECK
struct ht_err *crowd_stop(const struct crowd *crowd, struct crowd_report *ret);
