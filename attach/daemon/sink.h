/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the daemon's records go: a bounded queue to a process of its own that writes them
 * (scribe.h), by way of the filter of --cull. Nothing here waits for the output but sink_create,
 * sink_flush, sink_finish, sink_discard and sink_destroy, and these for a bounded time.
 */
#pragma once

#include "attach/daemon/writers.h"

struct sink;

struct sink_options {
	const char *path; /* as in store.h */
	bool replace;
	uint64_t reserve_bytes;
	uint64_t cull_ns;      /* blocks that live shorter become sums (filter.h); 0: none */
	scribe_append *append; /* for sink_finish; NULL: nothing to append */
	bool (*is_cancelled)(void *context); /* a second later opening and sink_flush are given up,
						whatever moves; NULL: never */
	void (*meanwhile)(void *context); /* every few milliseconds while sink_finish waits; NULL */
	void *context;			  /* of all; copied by fork when the sink is created */
	int append_fd;			  /* `append` finds it as SCRIBE_KEPT_FD; 0 or -1: none */
	uint64_t patience_ns; /* how long the output may take nothing while it is waited for; 0: 5 s
			       */
};

/* While the capture runs, sink_has_room keeps the queue at about this size; the kernel's pipe holds
 * as much again, and one pass of the receiver may add as much once more. */
#define SINK_QUEUE_BYTES WRITERS_PIPE_BYTES
/* At the end of the window the queue takes all that the target's buffers hold, even if the output
 * does not keep up. They hold less than this. */
#define SINK_QUEUE_MAX_BYTES (192u << 20)

/* Opens the output. Errors as of store_create; HT_ERR_USAGE also when it does not answer in time,
 * HT_ERR_REFUSED when that was cut short by is_cancelled. Nothing is left behind. */
HT_MUST_CHECK
struct ht_err *sink_create(const struct sink_options *options, struct sink **ret);
/* Writes what was put, if the output takes it. Removes the file again if no record was ever put. */
void sink_destroy(struct sink *sink);

/* Puts a record; `events`: how many events it holds (REC_EVENTS), else 0. Never waits. Output
 * errors do not come back: they change sink_state(), and the events that could not be written are
 * counted in sink_dropped_events(). Errors returned are our own (memory): its events are counted
 * there, too. */
HT_MUST_CHECK
struct ht_err *sink_put(struct sink *sink, const struct rec *rec, uint64_t events);
/* Counts events that could not even be put. */
void sink_drop(struct sink *sink, uint64_t events);
/* False: the output does not keep up. A caller that can wait leaves its events where they are. */
bool sink_has_room(const struct sink *sink);
/* From here on sink_has_room is true: the target must not wait any more. */
void sink_take_all(struct sink *sink);
/* Passes on what waits, as far as that does not block; to be called on each tick. */
void sink_tick(struct sink *sink);
/* Becomes writable (poll) when more could be passed on; -1 when nothing waits. */
int sink_fd(const struct sink *sink);
/* Waits until all is written, also what a filter holds, or it was cancelled; the state, and what
 * was dropped, is exact then. No events afterwards. */
void sink_flush(struct sink *sink);
/* Writes all, with `named` what options.append adds, and makes it durable. No put afterwards. */
void sink_finish(struct sink *sink, bool named);
/* Leaves no file, whatever was put: the attach failed. No put afterwards. */
void sink_discard(struct sink *sink);

enum store_state sink_state(const struct sink *sink);
/* Why not OK, for a person; NULL. */
const char *sink_problem(const struct sink *sink);
const char *sink_append_problem(const struct sink *sink);
uint64_t sink_dropped_events(const struct sink *sink);
uint64_t sink_bytes(const struct sink *sink); /* of the file */
/* The filter's live blocks, and its memory for them. */
struct sink_filtered {
	uint64_t live_blocks, table_bytes;
};
struct sink_filtered sink_filtered(const struct sink *sink);
/* The file in the output's directory that is to replace it in the end; "": it is written in its
 * place. */
const char *sink_beside(const struct sink *sink);
