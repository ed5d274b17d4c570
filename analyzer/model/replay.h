/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns events in time order into facts about blocks: allocated, freed, a free of an older block. A
 * realloc becomes one free and one allocation if it succeeded, otherwise nothing. Counts stay exact
 * if the stamps of two threads are inverted: when an address is allocated again, its old block must
 * have been freed, so replay ends the block at once and ignores the late free by another thread.
 */
#pragma once

#include "analyzer/model/block.h"
#include "analyzer/model/nodes.h"
#include "analyzer/model/threads.h"
#include "format/timebase.h"
#include "format/event.h"

#define REPLAY_HOOKS 16u /* number of values of event.hook; those of enum abi_hook have names */

/* The call that caused a fact. */
struct replay_call {
	uint64_t tsc;
	uint64_t time_ns; /* since the window's start; never decreases from call to call */
	uint32_t thread;  /* index of the calling thread */
	uint8_t hook;	  /* below REPLAY_HOOKS */
};

/* Receives the facts; an error ends the replay. */
struct replay_observer {
	void *context;
	/* The observer may store a number in block->note; it is passed back when the block is
	 * freed. */
	struct ht_err *(*allocated)(
		void *context, const struct replay_call *call, struct live_block *block);
	/* temporary: the allocating thread allocated nothing else between allocation and free */
	struct ht_err *(*freed)(void *context, const struct replay_call *call,
		const struct live_block *block, bool temporary);
	/* A block was freed in the settle time (replay_settle); may be NULL. */
	struct ht_err *(*settled)(
		void *context, const struct replay_call *call, const struct live_block *block);
	/* A block older than the window was freed; usable_bytes is 0 if unknown. */
	struct ht_err *(*before_freed)(
		void *context, const struct replay_call *call, uint64_t usable_bytes);
	/* Called after the last event for each block that was not freed, oldest first; may be NULL.
	 */
	struct ht_err *(*lived_on)(void *context, const struct live_block *block);
	/* Called for each event of a mapping in the window; may be NULL. */
	struct ht_err *(*mapped)(void *context, uint32_t stream, const struct event *event);
};

struct replay_counts {
	uint64_t events;
	uint64_t mappings;	 /* events of mappings, not among `events` */
	uint64_t inferred_frees; /* blocks given up because their address was allocated again */
	uint64_t absorbed_frees; /* of inferred_frees: frees that arrived later and were ignored */
	uint64_t unknown_stacks; /* allocations and mappings whose stack is not in the trace */
	uint64_t odd_events;	 /* impossible events: allocation at address 0 and the like */
};

struct replay;

/* Borrows the tables and the observer; adds to `threads`. If the numbers of interpreted functions
 * in the stack of an event are not valid at its time, the facts have the stack's plain copy, added
 * to `nodes`. */
HT_MUST_CHECK
struct ht_err *replay_create(const struct replay_observer *observer, struct threads *threads,
	struct nodes *nodes, const struct timebase *timebase, struct replay **ret);
/* Tells the replay that the events are of a sample with a mean distance of `sample_bytes`. Call
 * before the first event. */
void replay_sample(struct replay *replay, uint64_t sample_bytes);
/* Call at the window's end: later events are those of the settle time (FORMAT.md, SETTLE). From
 * then on frees of the window's blocks are passed to `settled`, other frees are ignored, a realloc
 * keeps its block's size and stack, and no block begins. */
void replay_settle(struct replay *replay);
void replay_destroy(struct replay *replay);
/* A streams_sink and a streams_scout; `context` is the struct replay. */
HT_MUST_CHECK
struct ht_err *replay_events(
	void *context, uint32_t stream, const struct event *event, size_t count);
void replay_scout(void *context, const struct event *event, size_t count);
/* Call after the last event: passes each live block to `lived_on`, including old blocks of
 * unfinished reallocs. */
HT_MUST_CHECK
struct ht_err *replay_finish(struct replay *replay);
const struct replay_counts *replay_counts(const struct replay *replay);
