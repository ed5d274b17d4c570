/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves, thread by thread and without stopping the world, that no thread is in our code or will
 * return into it. Precondition: no new entry is possible (thunks forward, slots restored), so that
 * a thread seen outside once stays outside. Blocked threads are read from /proc; running ones are
 * stopped for microseconds in a worker process. libunwind-ptrace decides about hits that stay.
 */
#pragma once

#include "attach/proof/stackscan.h"

struct quiesce;

/* What the agent's own books say of a thread: an accelerator and a tie-breaker. */
enum quiesce_books {
	QUIESCE_IDLE, /* the agent has a slot for it, and is not inside a hook */
	QUIESCE_INSIDE,
	QUIESCE_UNKNOWN, /* no slot, or no access to the books */
};

/* A hook that the books call unfinished. */
struct quiesce_frame {
	raddr_t sp; /* at its entry; 0: not told */
	raddr_t thread_pointer;
	bool unfollowed; /* one of many that no slot had: it counts whatever stands there now */
};

#define QUIESCE_FRAMES_MAX 6u /* nesting levels, and the ends of what was nested deeper */

struct quiesce_options {
	const struct proc *proc;
	struct stackscan_ranges ranges;
	/* Stop every thread once, and replace function pointers to thunks in its registers and on
	 * its stacks by the real functions (from `real`): for targets whose code takes addresses
	 * from slots. */
	bool rewrite;
	bool filtered; /* a thread may have a seccomp filter: see struct tracee */
	raddr_t (*real)(void *context, raddr_t entry);
	/* Of thread `tid` of `of`, which is `proc` above, or shares its memory. */
	enum quiesce_books (*books)(void *context, const struct proc *of, pid_t tid);
	/* The unfinished hooks of a thread, if it is QUIESCE_INSIDE: a signal handler may have left
	 * one suspended on a stack that the thread is not on now (swapcontext). `ret_abandoned`:
	 * the agent has taken a hook of it for one that a handler jumped out of, which is wrong
	 * where that is suspended, and not told here. NULL: not known. */
	size_t (*frames)(void *context, const struct proc *of, pid_t tid,
		struct quiesce_frame ret[QUIESCE_FRAMES_MAX], bool *ret_abandoned);
	void *context;
	/* Until half of the time up to here is over a thread is stopped only when that does no
	 * harm; 0: up to STOPCOST_PATIENCE_NS. */
	uint64_t deadline_mono_ns;
};

HT_MUST_CHECK
struct ht_err *quiesce_create(const struct quiesce_options *options, struct quiesce **ret);
void quiesce_destroy(struct quiesce *quiesce);

struct quiesce_report {
	size_t threads;	      /* that had to be seen */
	size_t left;	      /* not yet seen outside */
	size_t stopped;	      /* times a thread was stopped */
	size_t asleep;	      /* threads seen outside while they slept, from /proc alone */
	size_t awake;	      /* threads seen outside when they were stopped */
	size_t inside;	      /* times a thread was, or may have been, inside */
	size_t rewritten;     /* words and registers replaced */
	size_t entries_left;  /* function pointers to thunks that were seen and not rewritten */
	uint64_t stop_max_ns; /* longest time a thread was held */
	pid_t tid;	      /* one that is left */
	const char *why;      /* and the reason */
};

/* One pass over the threads not yet seen outside. left == 0: proven. */
HT_MUST_CHECK
struct ht_err *quiesce_pass(struct quiesce *quiesce, struct quiesce_report *ret);
