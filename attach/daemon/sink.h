/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the daemon's records go: an output file opened safely, the trace writer, the rule when
 * blocks leave, and the reaction to a full disk (records are dropped and counted, never the target
 * delayed).
 */
#pragma once

#include "format/writer.h"

struct sink;

struct sink_options {
	const char *path; /* "-": standard output */
	bool replace;	  /* -f: an existing regular file is replaced when the trace is finished or
			   * abandoned with content; without it the file must not exist */
	uint64_t reserve_bytes; /* stop before the file system has less than this free; 0: 64 MiB */
};

/* Opens the output: mode 0600, O_EXCL | O_NOFOLLOW; owner is the invoking user under sudo.
 * HT_ERR_USAGE names the file, the reason and the remedy when it exists or cannot be created.
 * Nothing is left behind on failure. */
HT_MUST_CHECK
struct ht_err *sink_create(const struct sink_options *options, struct sink **ret);
/* Removes the file again if no record was ever put (no partial file after a refusal). */
void sink_destroy(struct sink *sink);

enum sink_state { SINK_OK, SINK_FULL, SINK_BROKEN };

/* Puts a record; `events`: how many events it holds (REC_EVENTS), else 0. Output errors do not come
 * back: they change sink_state(), and the events that could not be written are counted in
 * sink_dropped_events(). Errors returned are our own (memory). */
HT_MUST_CHECK
struct ht_err *sink_put(struct sink *sink, const struct rec *rec, uint64_t events);
/* Writes the block under construction if it is old enough; to be called on each tick. */
HT_MUST_CHECK
struct ht_err *sink_tick(struct sink *sink, uint64_t now_mono_ns);
HT_MUST_CHECK
struct ht_err *sink_flush(struct sink *sink);
/* Footer, fsync; the file is complete. */
HT_MUST_CHECK
struct ht_err *sink_finish(struct sink *sink);

enum sink_state sink_state(const struct sink *sink);
const char *sink_problem(const struct sink *sink); /* why not OK, for a person; NULL */
uint64_t sink_dropped_events(const struct sink *sink);
uint64_t sink_bytes(const struct sink *sink);
const char *sink_path(const struct sink *sink);
/* A read-only descriptor of the output so far; -1 when it is not a regular file. Caller closes. */
int sink_reopen(const struct sink *sink);
