/* SPDX-License-Identifier: Apache-2.0
 *
 * Where records end: an output file opened safely, the trace writer, the rule when blocks leave,
 * and the reaction to a full disk (records are dropped and counted). Any call may wait for the
 * output, for ever: they are made in a process of their own (sink.h).
 */
#pragma once

#include "format/writer.h"

#define STORE_RESERVE_BYTES (64ull << 20) /* usually left free on the file system */

struct store;

struct store_options {
	const char *path; /* "-": standard output */
	bool replace;	  /* -f: an existing regular file is replaced when the trace is finished or
			   * abandoned with content; without it the file must not exist */
	uint64_t reserve_bytes; /* stop before the file system has less than this free; 0: the usual
				 */
	uint64_t *progress;	/* counts what a slow reader takes within one call; or NULL */
};

/* Opens the output: mode 0600, O_EXCL | O_NOFOLLOW; owner is the invoking user under sudo.
 * HT_ERR_USAGE names the file, the reason and the remedy when it exists or cannot be created.
 * Nothing is left behind on failure. */
HT_MUST_CHECK
struct ht_err *store_create(const struct store_options *options, struct store **ret);
/* Removes the file again if no record was ever put (no partial file after a refusal). */
void store_destroy(struct store *store);

enum store_state { STORE_OK, STORE_FULL, STORE_BROKEN };

/* Puts a record; `events`: how many events it holds (REC_EVENTS), else 0. Output errors do not come
 * back: they change the state, and the events that could not be written are counted as
 * dropped. Errors returned are our own (memory). */
HT_MUST_CHECK
struct ht_err *store_put(struct store *store, const struct rec *rec, uint64_t events);
/* Writes the block under construction if it is old enough; to be called on each tick. */
HT_MUST_CHECK
struct ht_err *store_tick(struct store *store, uint64_t now_ns);
HT_MUST_CHECK
struct ht_err *store_flush(struct store *store);
/* Footer, fsync; the file is complete. */
HT_MUST_CHECK
struct ht_err *store_finish(struct store *store);
/* store_destroy will leave no file, as if nothing had been put. */
void store_discard(struct store *store);

struct store_status {
	enum store_state state;
	const char *problem;	 /* why the state is not STORE_OK, for a person; NULL */
	uint64_t dropped_events; /* could not be written */
	uint64_t safe_events;	 /* stand in the file, in whole blocks */
	uint64_t bytes;		 /* of the file */
	/* The name of the file that is written beside the output and replaces it in the end; "":
	 * the output itself is written. */
	const char *beside;
};

/* The texts are valid until the next call for this store. */
struct store_status store_status(const struct store *store);
/* A read-only descriptor of the output so far; -1 when it is not a regular file. Caller closes. */
int store_reopen(const struct store *store);
