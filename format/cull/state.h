/* SPDX-License-Identifier: Apache-2.0
 *
 * State that the parts of the filter share.
 */
#pragma once

#include "format/cull/emit.h"
#include "format/cull/held.h"
#include "format/cull/tally.h"
#include "format/generations.h"
#include "format/live.h"
#include "format/owed.h"
#include "format/streams.h"
#include "format/timebase.h"

#define CULL_READINGS_MAX 64u

struct cull_reading {
	uint64_t begin_tsc, end_tsc, header_bytes;
};

/* The filter's state of a stream, mainly the realloc that has no outcome yet. */
struct lane {
	/* NONE: no realloc is open. BLOCK: the realloc's old block is `block`. BEFORE: the old
	 * block is older than the window. */
	enum { LANE_NONE, LANE_BLOCK, LANE_BEFORE } pending;
	bool temporary, begin_is_written;
	uint8_t hook;
	uint32_t thread, begin; /* begin: number of the held REALLOC_BEGIN; 0: none */
	uint64_t usable_bytes;
	struct live_entry block;
	/* Number of the thread period (tally.h) of the last event with `tid`; valid until
	 * `until_tsc`, while tally.names is `names`. */
	uint32_t caller, tid;
	uint64_t until_tsc, names;
};

struct cull {
	uint64_t cull_ns;
	struct timebase timebase;
	struct streams *streams;
	struct live live; /* note: number of the held allocation, 0: written; origin: site */
	struct held_queue held;
	struct tally tally;
	struct emit emit;
	struct lane *lane; /* by stream */
	size_t lane_capacity;
	struct owed owed;
	uint64_t now_ns;       /* time of the newest event */
	uint64_t next_ns;      /* end of the present interval, since the window's start */
	uint64_t complete_tsc; /* of the last SYNC that was put */
	uint64_t interval_tsc; /* stamp at which the interval began */
	uint64_t sums_tsc;     /* all sums of intervals that ended before this stamp are written */
	size_t held_records;
	uint64_t taken_events; /* counted events that came in */
	uint64_t told_events;  /* of these: left out, and counted in a REC_CULLED */
	uint64_t inferred_frees, absorbed_frees; /* not yet in a REC_CULLED */
	struct cull_reading reading[CULL_READINGS_MAX];
	size_t reading_count, readings_begun, readings_ended;
	bool is_reading; /* an allocator's counters are being read: blocks that are live now are
			    written even if they end early */
	bool is_finished;
	struct generations generations;
};

/* The data of the recorded call that an event belongs to. */
struct cull_call {
	uint64_t tsc, now_ns;
	uint32_t stream, tid, thread;
	uint8_t hook;
};
