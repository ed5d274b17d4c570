/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns events in time order into facts about blocks: allocated, freed, a free of an older block.
 * The two halves of a realloc become one free and one allocation when, and only when, it succeeded.
 * Counts stay exact when stamps of two threads are inverted: an address that is allocated again was
 * freed before, so the block is given up at once and the late free of another thread is absorbed.
 */
#pragma once

#include "analyzer/model/block.h"
#include "analyzer/model/nodes.h"
#include "analyzer/model/scripts.h"
#include "analyzer/model/threads.h"
#include "analyzer/model/timebase.h"
#include "format/event.h"

#define REPLAY_HOOKS 16u /* values of event.hook; those of enum abi_hook have names */

/* The call by which something happened. */
struct replay_call {
	uint64_t tsc;
	uint64_t time_ns; /* since the window's start; never earlier than that of the call before */
	uint32_t thread;  /* index of the calling thread */
	uint8_t hook;	  /* below REPLAY_HOOKS */
};

/* Receives the facts; an error ends the replay. */
struct replay_observer {
	void *context;
	/* What the observer leaves in block->note is there again when the block is freed. */
	struct ht_err *(*allocated)(
		void *context, const struct replay_call *call, struct live_block *block);
	/* temporary: its thread allocated nothing else in between */
	struct ht_err *(*freed)(void *context, const struct replay_call *call,
		const struct live_block *block, bool temporary);
	/* A block older than the window; usable_bytes is 0 when unknown. */
	struct ht_err *(*before_freed)(
		void *context, const struct replay_call *call, uint64_t usable_bytes);
	/* After the last event, each block that was not freed, oldest first; NULL: not wanted. */
	struct ht_err *(*lived_on)(void *context, const struct live_block *block);
	/* What was done to a mapping, as the event says; NULL: nobody asks. */
	struct ht_err *(*mapped)(void *context, uint32_t stream, const struct event *event);
};

struct replay_counts {
	uint64_t events;
	uint64_t mappings;	 /* events of mappings, not among `events` */
	uint64_t inferred_frees; /* blocks given up because their address was allocated again */
	uint64_t absorbed_frees; /* of those, how many frees arrived later */
	uint64_t unknown_stacks; /* allocations whose stack is not in the trace */
	uint64_t odd_events;	 /* events that cannot be: allocation at address 0 and the like */
};

struct replay;

/* Tables and observer are borrowed; `threads` is added to. */
HT_MUST_CHECK
struct ht_err *replay_create(const struct replay_observer *observer, struct threads *threads,
	const struct nodes *nodes, const struct timebase *timebase, struct replay **ret);
/* The events are those of a sample: one allocation in so many bytes. To be said before the first.
 */
void replay_sample(struct replay *replay, uint64_t sample_bytes);
/* Stacks of events in which numbers of interpreted functions do not hold are to be without them:
 * such are added to the nodes. To be said before the first event; both are borrowed. */
void replay_scripts(struct replay *replay, struct nodes *nodes, const struct scripts *scripts);
void replay_destroy(struct replay *replay);
/* A streams_sink and a streams_scout; `context` is the struct replay. */
HT_MUST_CHECK
struct ht_err *replay_events(
	void *context, uint32_t stream, const struct event *event, size_t count);
void replay_scout(void *context, const struct event *event, size_t count);
/* No more events: hands out the blocks that live on, those of reallocs under way among them. */
HT_MUST_CHECK
struct ht_err *replay_finish(struct replay *replay);
const struct replay_counts *replay_counts(const struct replay *replay);
