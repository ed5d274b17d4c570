/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller of a capture asks for, and the calls by which a capture asks its caller.
 */
#pragma once

#include <sys/types.h>

#include "attach/steer/limits.h"
#include "attach/plan/entries.h"

struct follow_ask;
struct heritage;
struct signalfd_siginfo;
struct steered;

/* A target that this process has started, and that waits for the tap. */
struct session_child {
	/* Everything is tapped: it may run. After an error it is dead, and never has. NULL: it runs
	 * already, and held blocks before. */
	struct ht_err *(*let_go)(void *context);
	/* A thread of it that is about to exec waits for us. True: it has become another program.
	 * NULL: execs are not waited for. */
	bool (*hold)(void *context, const struct follow_ask *ask);
	/* Called every few milliseconds from then on; `signal` is one that came for us, which then
	 * does not end the window, or NULL. NULL: signals end the window, as ever. */
	void (*attend)(void *context, const struct signalfd_siginfo *signal);
	void *context;
};

/* What a session shows of its target to session_forks, for the time of a call. */
struct session_target {
	struct proc *proc;
	struct image *image;
	const struct journal *journal;
	const struct remote_slack *slack;
	const struct heritage *heritage; /* of session_options */
};

/* Records the children of a target. */
struct session_forks {
	/* Is a child recorded that comes now? */
	bool (*is_open)(const struct session_forks *forks);
	/* Every few milliseconds while the tap is in. Does not return in the processes that it
	 * forks. */
	void (*look)(struct session_forks *forks, const struct session_target *target);
	/* Before the tap is taken out: waits, a moment, for a process that may hold a thread of the
	 * target. */
	void (*settle)(struct session_forks *forks, const struct session_target *target);
};

struct session_options {
	pid_t pid;
	const struct session_child *child; /* NULL: it is none of ours */
	struct session_forks *forks;	   /* records its children; NULL: they are not recorded */
	const struct heritage *heritage;   /* what its children may have of before */
	const char *output;		   /* path, or "-" */
	bool replace;
	bool force;		   /* record also a target that profiles its own heap */
	uint64_t duration_ns;	   /* 0: until a signal */
	uint64_t max_overhead_ppm; /* pauses by itself above this share of CPU time; 0: never */
	uint64_t settle_ns;	   /* how long frees are recorded after the duration; 0: not */
	struct limits_options limits;
	uint64_t start_ticks; /* field 22 of the process's stat: another one is refused; 0: any */
	enum entries_mode hook;
	bool given_optional; /* functions that were given (given.h) may be missing */
	bool lossless;
	uint64_t sample_bytes; /* record one allocation in so many bytes; 0: each */
	uint64_t cull_ns;      /* blocks that live shorter become sums; 0: none */
	bool mappings;	       /* record what is mapped past the allocators, too */
	bool full_unwind;      /* never splice stored stacks: the oracle */
	bool cache;	       /* read and keep unwind tables */
	bool symbolize;	       /* store names at the end of the window */
	uint64_t wait_ns;      /* longest delay of a thread while the daemon stalls */
	uint64_t detach_deadline_ns;
	uint64_t linger_ns;	 /* how long the guardian waits for a page that stays; 0: not */
	struct steered *steered; /* by which others steer it; NULL: it cannot be steered */
	void (*progress)(const char *line); /* NULL: quiet */
	void (*begun)(void *context);	    /* everything is tapped; or NULL */
	void *begun_context;
};

/* Tells a person who waits what is being done. */
HT_PRINTF(2, 3) void options_tell(const struct session_options *options, const char *fmt, ...);
