/* SPDX-License-Identifier: Apache-2.0
 *
 * What a capture reports of itself: its times, its losses, and how it left the process.
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
	uint64_t capture_ns; /* first tapped to last restored slot, or to the settle time */
	uint64_t settle_ns;  /* from there to the last restored slot; 0: it did not settle */
	uint64_t detach_ns;
	uint64_t stop_ns;		/* longest time any thread was held */
	uint64_t sample_bytes, cull_ns; /* of the options */
	uint64_t mappings;		/* calls that map memory; not among `events` */
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
	uint64_t pauses, paused_ns;
	/* With --max-overhead: the limit and the mean, in millionths; else 0. */
	uint64_t overhead_limit_ppm, overhead_ppm;
	char control_problem[900]; /* why it cannot be steered (steered.h); "" */
	pid_t guardian_left;	   /* it did not end when it was dismissed; 0: it has */
	char comm[64];
};

struct receiver;

/* Sets which functions are seen, and which are not. */
void report_fill_coverage(
	struct session_report *report, const struct survey *survey, const struct entries *entries);
/* Adds what was not searched of libraries that were loaded during the capture. */
void report_add_partial(struct session_report *report, const struct survey *survey);
/* Sets the counts of events and losses. `receiver` NULL: there were no events. */
void report_fill_totals(
	struct session_report *report, const struct receiver *receiver, const struct sink *sink);
/* Sets how the output has ended; after the sink is finished. */
void report_fill_output(struct session_report *report, const struct sink *sink);
