/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts over the time of the window, in a bounded number of steps. When all steps are used, they
 * are joined in pairs.
 */
#pragma once

#include "analyzer/model/sample.h"
#include "format/memory.h"

#define TIMELINE_STEPS	       512u
#define TIMELINE_FIRST_STEP_NS 1000000u

struct timeline_step {
	bool touched; /* an event fell into it */
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary;
	uint64_t live_bytes;	 /* at the step's end */
	uint64_t before_bytes;	 /* bytes of older blocks freed by its end, headers included */
	uint64_t live_max_bytes; /* highest within the step */
};

/* Number of memory kinds without those of allocators. */
#define TIMELINE_MEMORY_KINDS (MEMORY_CGROUP_LIMIT + 1u)

/* The last figure of each kind within a step. */
struct timeline_memory {
	bool is_known[TIMELINE_MEMORY_KINDS];
	uint64_t number[TIMELINE_MEMORY_KINDS];
};

struct timeline {
	uint64_t step_ns;
	uint64_t live_bytes, before_bytes; /* at the end of the newest step added */
	size_t count;			   /* steps up to the last touched or sampled one */
	size_t newest;			   /* step of the newest event */
	uint64_t newest_end_ns; /* end of that step: events stamped before it also count in that
				   step, even if they are older than its start */
	struct timeline_step step[TIMELINE_STEPS];
	struct timeline_memory memory[TIMELINE_STEPS]; /* of each step */
};

void timeline_init(struct timeline *timeline);
/* Joins steps pairwise: half as many, each twice as long. */
void timeline_join(struct timeline *timeline);
/* Makes the step at `time_ns` the newest one, unless the newest is later; steps may be joined. */
void timeline_enter(struct timeline *timeline, uint64_t time_ns);
/* Adds `more` to the newest step; live_bytes and before_bytes are those at the end of the step. */
void timeline_add(struct timeline *timeline, const struct timeline_step *more);
/* Notes the figures of `sample`. `time_ns` may be later than the newest event; steps may be joined.
 */
void timeline_note(struct timeline *timeline, uint64_t time_ns, const struct memory *sample);
/* Call after the last fact: fills steps without events with the live and older bytes of the step
 * before. */
void timeline_finish(struct timeline *timeline);
