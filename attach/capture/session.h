/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture of one process, from looking at it to the proof that nothing is left: the steps of
 * attach/DESIGN.md, in order.
 */
#pragma once

#include "attach/daemon/sink.h"
#include "attach/plan/entries.h"
#include "attach/plan/ownprofile.h"
#include "attach/proof/residue.h"
#include "attach/undo/children.h"
#include "attach/undo/detach.h"
#include "attach/unwind/publish.h"
#include "format/record.h"

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
	bool force;	      /* record also a target that profiles its own heap */
	uint64_t duration_ns; /* 0: until a signal */
	enum entries_mode hook;
	bool given_optional; /* functions that were given (given.h) may be missing */
	bool lossless;
	uint64_t sample_bytes; /* record one allocation in so many bytes; 0: each */
	bool mappings;	       /* record what is mapped past the allocators, too */
	bool full_unwind;      /* never splice stored stacks: the oracle */
	bool cache;	       /* read and keep unwind tables */
	bool symbolize;	       /* store names at the end of the window */
	uint64_t wait_ns;      /* longest delay of a thread while the daemon stalls */
	uint64_t detach_deadline_ns;
	uint64_t linger_ns;	 /* how long the guardian waits for a page that stays; 0: not */
	struct steered *steered; /* by which others steer it; NULL: nobody does */
	void (*progress)(const char *line); /* NULL: quiet */
};

/* What attach_ns consists of. */
enum session_phase {
	SESSION_SURVEY,	 /* looking at the target */
	SESSION_TABLES,	 /* unwind tables, compiled or from the cache */
	SESSION_PICTURE, /* of before, to compare with; the output; until here all is untouched */
	SESSION_BRING_IN,
	SESSION_TAP,
	SESSION_PHASES
};

struct session_report {
	enum rec_end_reason ended;
	uint64_t attach_ns; /* from the start to the last tapped slot */
	uint64_t phase_ns[SESSION_PHASES];
	struct publish_counts tables;
	uint64_t capture_ns; /* first tapped to last restored slot */
	uint64_t detach_ns;
	uint64_t stop_ns;      /* longest time any thread was held */
	uint64_t sample_bytes; /* of the options */
	uint64_t mappings;     /* calls that map memory; not among `events` */
	uint64_t events, dropped_events, nested_events, truncated_stacks;
	uint64_t slots_tapped, slots_restored, slots_foreign;
	uint64_t slots_changed, slots_unloaded; /* left alone */
	uint64_t slots_left;	   /* found no room in journal or thunk page: not recorded */
	struct quiesce_report met; /* the threads, as the proof of detach found them */
	uint64_t untapped_modules;
	uint64_t unseen_places; /* in code, that call an allocator past all slots */
	char unseen[200];	/* its functions */
	uint64_t entries;	/* functions hooked at their entry */
	char refused[400];	/* those that could not be, and why */
	struct ownprofile own_profile;
	char given[1000]; /* the functions that were given, and how each is seen */
	uint64_t damage;  /* what the target wrote into the agent's memory, as far as it was noticed
			   */
	uint64_t threads, trace_bytes;
	bool detached; /* detach was attempted: level and verify are set */
	enum detach_level level;
	char why[600];	    /* for level 2 and 3; what differs, where verify is not equal */
	raddr_t page;	    /* of level 2: where it stays; 0: none does */
	uint64_t linger_ns; /* how long the guardian waits for pages that stay; 0: not */
	struct residue_report verify;
	bool trace_finished; /* there is a trace to be read, also after an error */
	enum store_state sink_state;
	char sink_problem[1024];
	char symbols_problem[200];
	uint64_t script_places, script_names; /* addresses in code that V8 made; those with a name
					       */
	char scripts_problem[200]; /* why JavaScript functions have no names; "": they do, or there
				    * are none */
	struct children_report children;
	uint64_t pauses, paused_ns; /* asked for by others */
	char control_problem[900];  /* why nobody can steer it (steered.h); "" */
	pid_t guardian_left;	    /* it did not end when it was told; 0: it has */
	char comm[64];
};

/* Runs a capture. An error means that nothing was recorded and nothing is left in the target (or,
 * for HT_ERR_INCOMPLETE, says what is); where it has become another program before it was touched
 * `ended` says so. The signals of start_ending_signals end the window: the
 * caller has blocked them, and they are taken with signalfd. */
HT_MUST_CHECK
struct ht_err *session_run(const struct session_options *options, struct session_report *ret);
