/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs heaptap under a tracer that counts the system calls of all its processes in one order, and
 * acts just before the K-th. A test can so act at each call in turn. The tracer does not trace the
 * target; heaptap does, as usual. With HEAPTAP_SWEEP_CORE=N, and on any core
 * in a sample, heaptap and its tracer run on that core alone, the target on all: a sweep takes a
 * third of the time.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/places.h"
#include "tests/support/run.h"

enum sweep_role {
	SWEEP_ANY,
	SWEEP_MAIN,
	SWEEP_WORKER, /* a child of main or guardian; the guardian before it has its name */
	SWEEP_GUARDIAN,
	SWEEP_ROLES
};

enum sweep_action {
	SWEEP_COUNT,	 /* nothing */
	SWEEP_KILL,	 /* SIGKILL to the calling process; the call is not made */
	SWEEP_KILL_MAIN, /* SIGKILL to main, whichever process makes the call */
	SWEEP_KILL_ALL,	 /* SIGKILL to every process of heaptap */
	SWEEP_FAIL,	 /* the call is not made and returns -`value`; exit and brk do not fail.
			  * What SWEEP_CALL does comes first, if `call` is given */
	SWEEP_FAIL_ON,	 /* the same, and so does each later one, of whichever process, until main
			  * has ended; `number` or `request` says which calls */
	SWEEP_SIGNAL,	 /* signal `value` to every process of heaptap, again at each later call */
	SWEEP_CALL, /* call(context); may do anything to the target, and must not wait for heaptap
		     */
};

struct sweep_plan {
	enum sweep_action action;
	enum sweep_role role;  /* whose calls are counted */
	uint64_t at;	       /* the first call is 1 */
	struct places *places; /* not `at`, but the first call that is due there; or NULL */
	long from;	       /* which is the first of this number; 0: after the exec */
	bool from_guardian;    /* which is the first after the guardian has its name */
	bool orphans;	       /* which is the first after main's end */
	int value;
	long request;		     /* only calls of ptrace for this count; 0: all calls */
	long number;		     /* only calls of this number do; 0: all calls */
	bool command;		     /* main's first child is a command, not a process of heaptap */
	unsigned dally_ms;	     /* how long the process then waits in its call */
	void (*call)(void *context); /* runs in the tracer's thread, while that process waits */
	void (*prepare)(void *context); /* as run_start_prepared, or NULL */
	void *context;
};

struct sweep {
	struct sweep_plan plan;
	const char *const *argv;
	struct run run;			 /* of main; not to be waited for but by sweep_wait */
	atomic_bool hit;		 /* the call was reached */
	atomic_ulong calls[SWEEP_ROLES]; /* made as yet: until the end, or until the hit */
	uint64_t hit_at;		 /* which call of the plan's role it was */
	enum sweep_role hit_role;
	long hit_number;
	char pid[16]; /* for sweep_attach */
	const char *attach[8];
	/* The rest is the tracer's own. */
	bool begun, main_has_ended;
	pid_t command; /* left to itself; 0: it has not been forked */
	pthread_t tracer;
	struct sweep_process *process;
	size_t process_count;
	size_t turn; /* index of the process that is polled first */
};

/* Starts argv[0]; `argv` must live until sweep_wait. Orphans of heaptap become children of the
 * test (PR_SET_CHILD_SUBREAPER). */
void sweep_start(struct sweep *sweep, const char *const argv[], const struct sweep_plan *plan);
/* The same for `heaptap attach -q -p PID -o TRACE`; `trace` must live until sweep_wait. */
void sweep_attach(struct sweep *sweep, pid_t pid, const char *trace, const struct sweep_plan *plan);
/* Waits until every process of heaptap has ended, the guardian too; after `limit_ms` the test fails
 * and says what each was doing. Returns main's exit status, or 128 + the signal that ended it. */
int sweep_wait(struct sweep *sweep, unsigned limit_ms);
/* Gives up the captured output. */
void sweep_deinit(struct sweep *sweep);

/* Which calls a test acts at: first, first + stride, up to last. */
struct sweep_points {
	uint64_t first, stride, last;
	unsigned count; /* as many were wanted */
};

/* About `points` of `calls`, evenly spread, in a sample (tests/support/sample.h) one;
 * HEAPTAP_SWEEP=all is every call, HEAPTAP_SWEEP=K the K-th alone, HEAPTAP_SWEEP=K- every call from
 * the K-th on, HEAPTAP_SWEEP=/N every N-th; up to one and a half times `calls`: on a busy machine
 * heaptap waits in more of them, again and again the same. The first of them is the same in every
 * run, unless HEAPTAP_TEST_SEED=S, HEAPTAP_SWEEP_SEED=S or =random chooses another. Prints the
 * choice for the sweep `name`. If no point was reached, because the counted run made more calls
 * than the others, continue with first / 2, first / 4 and so on. */
struct sweep_points sweep_points_of(const char *name, uint64_t calls, unsigned points);

/* Fails the test unless at least one point was reached, and half of those up to `calls`: as many
 * as there were in the run that made the fewest. */
void sweep_points_check(const struct sweep_points *points, uint64_t calls, uint64_t hits);

/* Describes the action for messages: "kill at call 17, openat of main". Static buffer. */
const char *sweep_text(const struct sweep *sweep);
