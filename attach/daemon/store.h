/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes records: opens the output file safely, decides when the trace writer writes a block, and
 * reacts to a full disk (drops records and counts their events). Any call may wait for the output
 * without end, so heaptap makes the calls in a separate process (sink.h).
 */
#pragma once

#include "format/writer.h"

#define STORE_RESERVE_BYTES (64ull << 20) /* left free on the file system by default */

struct store;

struct store_options {
	const char *path; /* "-": standard output */
	bool replace;	  /* -f: an existing regular file is replaced when the trace is finished or
			   * abandoned with content; without it the file must not exist */
	uint64_t reserve_bytes; /* writing stops before the file system has less than this free; 0:
				   STORE_RESERVE_BYTES */
	uint64_t *progress; /* incremented whenever a call goes on after a wait for a slow reader;
			       or NULL */
};

/* Opens the output as output_open does, with the same errors; also HT_ERR_USAGE if less than the
 * reserve is free. After an error no file is left. */
HT_MUST_CHECK
struct ht_err *store_create(const struct store_options *options, struct store **ret);
/* Removes the file if no record was ever put, or after store_discard. Otherwise gives an unfinished
 * file its final name; records that were not flushed are lost. Accepts NULL. */
void store_destroy(struct store *store);

enum store_state { STORE_OK, STORE_FULL, STORE_BROKEN };

/* Puts a record; `events`: how many events it holds (REC_EVENTS), else 0. Does not return errors of
 * the output: they change the state, and the events that could not be written are counted as
 * dropped. Returns errors of this process, such as HT_ERR_NOMEM. The same holds for the three
 * functions that follow. */
HT_MUST_CHECK
struct ht_err *store_put(struct store *store, const struct rec *rec, uint64_t events);
/* Writes the unfinished block if its oldest record is older than 1 s. Call it in each tick. */
HT_MUST_CHECK
struct ht_err *store_tick(struct store *store, uint64_t now_ns);
/* Writes the unfinished block. */
HT_MUST_CHECK
struct ht_err *store_flush(struct store *store);
/* Writes the rest and the footer, makes the file durable and gives it its final name. */
HT_MUST_CHECK
struct ht_err *store_finish(struct store *store);
/* store_destroy will leave no file, as if nothing had been put. */
void store_discard(struct store *store);

struct store_status {
	enum store_state state;
	const char *problem; /* why the state is not STORE_OK, for the user; NULL: it is, or memory
				is short */
	uint64_t dropped_events; /* events that could not be written */
	uint64_t safe_events;	 /* events in the file, in whole blocks */
	uint64_t bytes;		 /* size of the file */
	/* The name of the file, in the output's directory, that is written now and replaces the
	 * output in the end; "": the output itself is written. */
	const char *beside;
};

/* The texts are valid until the next call for this store. */
struct store_status store_status(const struct store *store);
/* Opens the file that is being written for reading; the caller closes the descriptor. -1: the
 * output is not a regular file, or cannot be opened. */
int store_reopen(const struct store *store);
