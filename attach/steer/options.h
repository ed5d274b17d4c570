/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a capture, and the functions of its caller that the capture calls.
 */
#pragma once

#include <sys/types.h>

#include "attach/steer/limits.h"
#include "attach/plan/entries.h"

struct follow_ask;
struct heritage;
struct signalfd_siginfo;
struct steered;

/* A target that heaptap has started, and that waits to be recorded. */
struct session_child {
	/* Called when all is hooked: lets the target run. After an error the target is dead and has
	 * never run. NULL: the target runs already, and may have older live blocks. */
	struct ht_err *(*let_go)(void *context);
	/* Called when a thread of the target waits for heaptap before an exec. True: the target has
	 * exec'd. NULL: no thread waits before an exec. */
	bool (*hold)(void *context, const struct follow_ask *ask);
	/* Called every few milliseconds of the window: for each signal to heaptap that has come,
	 * with `signal` set, and then with `signal` NULL. Such a signal does not end the window. If
	 * attend is NULL, signals end the window. */
	void (*attend)(void *context, const struct signalfd_siginfo *signal);
	void *context;
};

/* Parts of a session that session_forks may use during a call. */
struct session_target {
	struct proc *proc;
	struct image *image;
	const struct journal *journal;
	const struct remote_slack *slack;
	const struct heritage *heritage; /* of session_options */
};

/* Records the children of a target. */
struct session_forks {
	/* Would a child that the target makes now be recorded? */
	bool (*is_open)(const struct session_forks *forks);
	/* Called every few milliseconds while the target is recorded. Does not return in processes
	 * that it forks. */
	void (*look)(struct session_forks *forks, const struct session_target *target);
	/* Called before the detach: waits a moment for processes that hold a thread of the target,
	 * and then kills them. */
	void (*settle)(struct session_forks *forks, const struct session_target *target);
};

struct session_options {
	pid_t pid;
	const struct session_child *child; /* NULL: heaptap did not start the target */
	struct session_forks *forks;	   /* records its children; NULL: they are not recorded */
	const struct heritage *heritage;   /* what its children may have inherited */
	const char *output;		   /* path, or "-" */
	bool replace;
	bool force;	      /* also record a target that profiles its own heap */
	uint64_t duration_ns; /* 0: no limit */
	/* The number of the window in its series, from 1, and of all its windows (0: no limit);
	 * both 0: it is no series. For CONTROL_STATUS. */
	uint64_t window, windows;
	uint64_t max_overhead_ppm; /* share of the target's CPU time above which recording pauses;
				      0: never */
	uint64_t settle_ns;	   /* how long frees are recorded after the window; 0: not at all */
	struct limits_options limits;
	uint64_t start_ticks; /* field 22 of the process's stat: refuses another process; 0: any */
	enum entries_mode hook;
	bool given_optional; /* functions named by the user (given.h) may be missing */
	bool lossless;
	uint64_t sample_bytes; /* records one allocation in so many bytes; 0: every one */
	uint64_t cull_ns;      /* blocks that live for less become sums; 0: none */
	bool mappings;	  /* also record mappings that the program makes without an allocator */
	bool full_unwind; /* never reuse stored stacks: for comparison in tests */
	bool cache;	  /* read and keep unwind tables */
	bool symbolize;	  /* store names at the end of the window */
	uint64_t wait_ns; /* longest time that a thread waits for heaptap to empty its buffer */
	uint64_t detach_deadline_ns;
	uint64_t linger_ns;	 /* how long the guardian waits for a jump page; 0: not at all */
	struct steered *steered; /* NULL: the capture cannot be steered */
	void (*progress)(const char *line); /* NULL: quiet */
	void (*begun)(void *context);	    /* called when all is hooked; or NULL */
	void *begun_context;
};

/* Formats a line of at most 255 bytes about what heaptap does now, for options->progress. */
HT_PRINTF(2, 3) void options_tell(const struct session_options *options, const char *fmt, ...);
