/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs heaptap under a tracer that counts the system calls of all its processes in one order, and
 * acts just before the K-th call. With K from 1 up, a test acts at each call in turn. The tracer
 * does not trace the target; heaptap does, as usual.
 *
 * With HEAPTAP_SWEEP_CORE=N heaptap and its tracer run on core N alone. Without it a sample
 * (tests/support/sample.h) runs them on the core where the test runs. The target runs on all cores.
 * On one core a sweep takes a third of the time.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/places.h"
#include "tests/support/run.h"

enum sweep_role {
	SWEEP_ANY,
	SWEEP_MAIN,
	SWEEP_WORKER, /* a child of main or of the guardian; also the guardian until it sets its
			 name */
	SWEEP_GUARDIAN,
	SWEEP_ROLES
};

enum sweep_action {
	SWEEP_COUNT,	 /* nothing */
	SWEEP_KILL,	 /* SIGKILL to the calling process; the call is not made */
	SWEEP_KILL_MAIN, /* SIGKILL to main, whichever process makes the call */
	SWEEP_KILL_ALL,	 /* SIGKILL to every process of heaptap */
	SWEEP_FAIL,	 /* the call is not made and returns -`value`; exit and brk do not fail. If
			    `call` is set, call(context) runs first */
	SWEEP_FAIL_ON,	 /* like SWEEP_FAIL without `call`, and each later call of any process that
			    `number` or `request` selects fails, too, until main has ended */
	SWEEP_SIGNAL, /* signal `value` to every process of heaptap, again at each later call that
			 is counted */
	SWEEP_CALL,   /* call(context); `call` may do anything to the target, but must not wait for
			 heaptap */
};

struct sweep_plan {
	enum sweep_action action;
	enum sweep_role role;  /* whose calls are counted */
	uint64_t at;	       /* act at this call; the first counted call is 1 */
	struct places *places; /* act where places_is_due, not at `at`; or NULL */
	long from; /* counting starts with the first call of this number; 0: with the first call
		      after the exec */
	bool from_guardian; /* counting starts with the call by which the guardian sets its name */
	bool orphans;	    /* counting starts when main has ended */
	int value;
	long request;		     /* counts only ptrace calls with this request; 0: all calls */
	long number;		     /* counts only calls of this number; 0: all calls */
	bool command;		     /* main's first child is a command, not a process of heaptap */
	unsigned dally_ms;	     /* after the action, how long the process waits in its call */
	void (*call)(void *context); /* runs in the tracer's thread while the process is stopped */
	void (*prepare)(void *context); /* as in run_start_prepared, or NULL */
	void *context;
};

struct sweep {
	struct sweep_plan plan;
	const char *const *argv;
	struct run run;			 /* main; only sweep_wait may wait for it */
	atomic_bool hit;		 /* the call was reached */
	atomic_ulong calls[SWEEP_ROLES]; /* counted so far; incomplete after the hit */
	uint64_t hit_at; /* the number of the call that was hit, among those of the plan's role */
	enum sweep_role hit_role;
	long hit_number;
	char pid[16]; /* for sweep_attach */
	const char *attach[8];
	/* The rest is the tracer's own. */
	bool begun, main_has_ended;
	pid_t command; /* the command, which is not traced; 0: not forked yet */
	pthread_t tracer;
	struct sweep_process *process;
	size_t process_count;
	size_t turn; /* index of the process that is polled first */
};

/* Starts argv[0]; `argv` must live until sweep_wait. Processes of heaptap that outlive main become
 * children of the test (PR_SET_CHILD_SUBREAPER). */
void sweep_start(struct sweep *sweep, const char *const argv[], const struct sweep_plan *plan);
/* The same for `heaptap attach -q -p PID -o TRACE`; `trace` must live until sweep_wait. */
void sweep_attach(struct sweep *sweep, pid_t pid, const char *trace, const struct sweep_plan *plan);
/* Waits until every process of heaptap has ended, the guardian too. After about `limit_ms` the test
 * fails and says what each was doing. Returns main's exit status, or 128 + the signal that ended
 * main. */
int sweep_wait(struct sweep *sweep, unsigned limit_ms);
/* Closes the captured output. */
void sweep_deinit(struct sweep *sweep);

/* Which calls a test acts at: first, first + stride, up to last. */
struct sweep_points {
	uint64_t first, stride, last;
	unsigned count; /* how many points were wanted */
};

/* Chooses about `points` of `calls` calls, evenly spread; in a sample (tests/support/sample.h) one.
 * HEAPTAP_SWEEP=all chooses every call, HEAPTAP_SWEEP=K the K-th alone, HEAPTAP_SWEEP=K- every call
 * from the K-th on, HEAPTAP_SWEEP=/N every N-th. Unless there is one point, `last` is one and a
 * half times `calls`, because on a busy machine heaptap polls more often. The first point is the
 * same in every run, unless HEAPTAP_TEST_SEED=S, HEAPTAP_SWEEP_SEED=S or =random chooses another.
 * Prints the choice for the sweep `name`. If no point was reached, because the counted run made
 * more calls than the others, the caller should try first / 2, first / 4 and so on. */
struct sweep_points sweep_points_of(const char *name, uint64_t calls, unsigned points);

/* Fails the test unless at least one point was reached, and half of the points up to `calls`, the
 * number of calls in the undisturbed run that made the fewest. */
void sweep_points_check(const struct sweep_points *points, uint64_t calls, uint64_t hits);

/* Describes the action: "kill (0) at call 17 of main, openat by main". Static buffer. */
const char *sweep_text(const struct sweep *sweep);
