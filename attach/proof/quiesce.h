/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves, thread by thread and without stopping the world, that no thread is in our code or will
 * return into it. Precondition: no thread can enter any more (thunks forward, slots are restored),
 * so that a thread seen outside once stays outside. Blocked threads are read from /proc; running
 * threads are stopped for microseconds in a worker process. libunwind-ptrace decides about hits
 * that stay.
 */
#pragma once

#include "attach/proof/stackscan.h"

struct quiesce;

/* The state of a thread by the agent's records. The records save looks, and decide where the stack
 * alone does not. */
enum quiesce_books {
	QUIESCE_IDLE, /* the agent has a record of the thread, which is in no hook */
	QUIESCE_INSIDE,
	QUIESCE_UNKNOWN, /* no record, or the records cannot be used */
};

/* A hook that the agent's records call unfinished. */
struct quiesce_frame {
	raddr_t sp; /* stack pointer at the hook's entry; 0: unknown */
	raddr_t thread_pointer;
	bool unfollowed; /* a hook without a thread record of its own: it counts as unfinished,
			    whatever the stack holds */
};

#define QUIESCE_FRAMES_MAX 6u /* nesting levels, and the two ends of deeper nesting */

struct quiesce_options {
	const struct proc *proc;
	struct stackscan_ranges ranges;
	/* Stop every thread once, and replace function pointers to thunks in its registers and on
	 * its stacks by the real functions (from `real`): for targets whose code takes addresses
	 * from slots. */
	bool rewrite;
	bool filtered; /* a thread may have a seccomp filter: see struct tracee */
	raddr_t (*real)(void *context, raddr_t entry);
	/* The state by the records of thread `tid`. `of`: its process, which is `proc` or shares
	 * the memory of `proc`. */
	enum quiesce_books (*books)(void *context, const struct proc *of, pid_t tid);
	/*
	 * Returns the unfinished hooks of a thread that is QUIESCE_INSIDE: a signal handler may
	 * have left a hook suspended on another stack (swapcontext). `ret_abandoned`: the agent has
	 * concluded that a handler jumped out of a hook of this thread. If that hook is only
	 * suspended, the conclusion is wrong and the hook is not in `ret`. NULL: unknown.
	 */
	size_t (*frames)(void *context, const struct proc *of, pid_t tid,
		struct quiesce_frame ret[QUIESCE_FRAMES_MAX], bool *ret_abandoned);
	void *context;
	/* Until half of the time to this deadline is over, and at most for STOPCOST_PATIENCE_NS, a
	 * thread is stopped only when the stop does no harm. 0: no deadline. */
	uint64_t deadline_mono_ns;
};

/* For `books`, if our code in `ranges` calls nothing (a stub, the jump page): a return address into
 * it is stale, and only a PC, live or saved, counts. */
enum quiesce_books quiesce_calls_nothing(void *context, const struct proc *of, pid_t tid);

HT_MUST_CHECK
struct ht_err *quiesce_create(const struct quiesce_options *options, struct quiesce **ret);
void quiesce_destroy(struct quiesce *quiesce);

struct quiesce_report {
	size_t threads;	      /* all threads to be seen */
	size_t left;	      /* not yet seen outside */
	size_t stopped;	      /* times a thread was stopped */
	size_t asleep;	      /* threads seen outside from /proc alone, while they slept */
	size_t awake;	      /* threads seen outside when they were stopped */
	size_t inside;	      /* times a thread was, or may have been, inside */
	size_t rewritten;     /* words and registers replaced */
	size_t entries_left;  /* function pointers to thunks that were seen and not rewritten */
	uint64_t stop_max_ns; /* longest time a thread was held */
	pid_t tid;	      /* one thread that is left */
	const char *why;      /* why that thread is left */
};

/* One pass over the threads not yet seen outside. `ret` adds up all passes, except `left`, `tid`
 * and `why`; left == 0: proven. After an error `ret` is not set. */
HT_MUST_CHECK
struct ht_err *quiesce_pass(struct quiesce *quiesce, struct quiesce_report *ret);
