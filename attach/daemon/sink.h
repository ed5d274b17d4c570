/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the daemon's records: a bounded queue to a separate process that writes them (scribe.h),
 * with --cull through the filter (filter.h). Only sink_create, sink_flush, sink_finish,
 * sink_discard and sink_destroy wait for the output, for a bounded time. If a process that writes
 * has died or is given up, sink_put and sink_tick wait for the end of the others, also for a
 * bounded time.
 */
#pragma once

#include "attach/daemon/writers.h"

struct sink;

struct sink_options {
	const char *path; /* as in store.h */
	bool replace;
	uint64_t reserve_bytes;
	uint64_t cull_ns;      /* blocks that live for less become sums (filter.h); 0: none */
	scribe_append *append; /* for sink_finish; NULL: nothing to append */
	/* True: a second later heaptap gives up opening, sink_flush or sink_discard, even if the
	 * output makes progress. NULL: never. */
	bool (*is_cancelled)(void *context);
	/* Called every few milliseconds while sink_finish waits; or NULL. */
	void (*meanwhile)(void *context);
	void *context; /* of the three functions; `append` sees the copy from sink_create's fork */
	int append_fd; /* `append` finds it as SCRIBE_KEPT_FD; 0 or -1: none */
	uint64_t patience_ns; /* how long to wait while the output takes nothing; 0: 5 s */
};

/* While the capture runs, sink_has_room keeps the queue at about this size. The kernel's pipe holds
 * as much again, and one pass of the receiver may add as much once more. */
#define SINK_QUEUE_BYTES WRITERS_PIPE_BYTES
/* At the end of the window the queue takes all that the target's buffers hold, which is less than
 * this, even if the output does not keep up. A sink_put beyond this limit gives the output up. */
#define SINK_QUEUE_MAX_BYTES (192u << 20)

/* Opens the output. Errors as of store_create; also HT_ERR_USAGE if the output does not answer in
 * time, and HT_ERR_REFUSED if is_cancelled cut that time short. After an error no file is left. */
HT_MUST_CHECK
struct ht_err *sink_create(const struct sink_options *options, struct sink **ret);
/* Writes what was put, if the output takes it, and frees the sink. Removes the file if no record
 * was ever put. Accepts NULL. */
void sink_destroy(struct sink *sink);

/* Puts a record; `events`: how many events it holds (REC_EVENTS), else 0. Does not return errors of
 * the output: they change sink_state(), and sink_dropped_events() counts the events that could not
 * be written. Returns errors of this process, such as HT_ERR_NOMEM; the record's events are then
 * counted there, too. */
HT_MUST_CHECK
struct ht_err *sink_put(struct sink *sink, const struct rec *rec, uint64_t events);
/* Counts events that the caller could not put. */
void sink_drop(struct sink *sink, uint64_t events);
/* False: the output does not keep up. A caller that can wait leaves its events where they are. */
bool sink_has_room(const struct sink *sink);
/* From here on sink_has_room is true: the target must not wait any more. */
void sink_take_all(struct sink *sink);
/* Writes the queue to the pipe, as far as that does not block. Call it in each tick. */
void sink_tick(struct sink *sink);
/* A descriptor that poll(2) reports as writable when sink_tick can write more; -1: the queue is
 * empty, or closed. */
int sink_fd(const struct sink *sink);
/* Waits until all is written, also the blocks that a filter holds, or until the output is given up,
 * also because of is_cancelled. Then sink_state and sink_dropped_events are exact. Put no events
 * afterwards. */
void sink_flush(struct sink *sink);
/* Writes all records, and with `named` those that options.append adds, and makes the file durable.
 * Put nothing afterwards. */
void sink_finish(struct sink *sink, bool named);
/* Leaves no file, whatever was put: the attach failed. Put nothing afterwards. */
void sink_discard(struct sink *sink);

enum store_state sink_state(const struct sink *sink);
/* Why the state is not STORE_OK, for the user; NULL: it is STORE_OK. */
const char *sink_problem(const struct sink *sink);
/* A message for the user that names what is missing in the records of options.append; "": nothing
 * is. */
const char *sink_append_problem(const struct sink *sink);
uint64_t sink_dropped_events(const struct sink *sink);
uint64_t sink_bytes(const struct sink *sink); /* size of the file */
/* The live blocks that the filter holds, and the memory of its tables; 0 without a filter. */
struct sink_filtered {
	uint64_t live_blocks, table_bytes;
};
struct sink_filtered sink_filtered(const struct sink *sink);
/* The name of the file, in the output's directory, that is written now and replaces the output in
 * the end; "": the output itself is written. */
const char *sink_beside(const struct sink *sink);
