/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of a capture: its times, its losses, and how heaptap left the process.
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

/* The parts of attach_ns. */
enum session_phase {
	SESSION_SURVEY,	 /* looking at the target */
	SESSION_TABLES,	 /* unwind tables, compiled or from the cache */
	SESSION_PICTURE, /* the picture from before, the output; nothing is touched yet */
	SESSION_BRING_IN,
	SESSION_TAP,
	SESSION_PHASES
};

struct session_report {
	enum rec_end_reason ended;
	uint64_t attach_ns; /* from the start to the last hooked slot */
	uint64_t phase_ns[SESSION_PHASES];
	struct publish_counts tables;
	uint64_t capture_ns; /* first hooked to last restored slot, or to the settle time */
	uint64_t settle_ns;  /* from there to the last restored slot; 0: no settle time */
	uint64_t detach_ns;
	uint64_t stop_ns;		/* longest time any thread was held */
	uint64_t sample_bytes, cull_ns; /* of the options */
	uint64_t mappings;		/* recorded calls that map memory; not in `events` */
	uint64_t events, dropped_events, nested_events, truncated_stacks;
	uint64_t slots_tapped, slots_restored, slots_foreign;
	uint64_t slots_changed, slots_unloaded; /* not restored: the program changed them, or
						   unloaded the library */
	uint64_t slots_left;			/* no room in journal or thunk page: not recorded */
	struct quiesce_report met;		/* the threads, as the proof of detach found them */
	uint64_t untapped_modules;
	uint64_t unseen_places; /* places in code that call an allocator past all slots, and large
				   files that were searched in part */
	char unseen[200];	/* the functions with such calls, and these files */
	uint64_t entries;	/* functions hooked at their entry */
	char refused[400];	/* functions that could not be hooked, and why */
	struct ownprofile own_profile;
	char given[1000]; /* the functions given by name, and how each is recorded */
	uint64_t damage;  /* words in the agent's memory that only the target can have written */
	uint64_t threads, trace_bytes;
	bool detached; /* detach was attempted: level and verify are set */
	enum detach_level level;
	char why[600]; /* for level 2 and 3: what stays and why; else the difference that `verify`
			  found, or "" */
	raddr_t page;  /* of level 2: address of the jump page; 0: none */
	uint64_t linger_ns; /* how long the guardian waits for jump pages; 0: not at all */
	struct residue_report verify;
	bool trace_finished; /* there is a readable trace, perhaps also after an error */
	/* Set by the caller after an exec: what it prints of the next program follows. */
	bool is_followed;
	enum store_state sink_state;
	char sink_problem[1024];
	char symbols_problem[200];
	uint64_t script_places, script_names; /* addresses in V8's code; those with a name */
	char scripts_problem[200]; /* why JavaScript functions have no names; "": no problem */
	struct children_report children;
	uint64_t pauses, paused_ns;
	/* With --max-overhead: the limit and the mean, in millionths; else 0. */
	uint64_t overhead_limit_ppm, overhead_ppm;
	char control_problem[900]; /* why the capture cannot be steered (steered.h); "": it can */
	pid_t guardian_left; /* PID of the guardian, if it did not end when dismissed; else 0 */
	char comm[64];
};

struct receiver;

/* Sets which allocator functions are recorded, and which are not. */
void report_fill_coverage(
	struct session_report *report, const struct survey *survey, const struct entries *entries);
/* Adds the libraries of which a part was not searched, since they are too large. */
void report_add_partial(struct session_report *report, const struct survey *survey);
/* Sets the counts of events and losses. `receiver` NULL: no event came. */
void report_fill_totals(
	struct session_report *report, const struct receiver *receiver, const struct sink *sink);
/* Sets how the output ended; call when the sink is finished. */
void report_fill_output(struct session_report *report, const struct sink *sink);
