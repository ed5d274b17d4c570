/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that writes the trace. Only the scribe has the output open, so only the scribe waits
 * when a file system or a reader does not answer. It gets orders through a pipe. writers.c starts
 * it; sink.c ends it when it makes no progress.
 */
#pragma once

#include <sys/types.h>

#include "attach/daemon/apart.h"
#include "attach/daemon/orders.h"
#include "attach/daemon/store.h"

#define SCRIBE_TEXT_BYTES 1024u

/* Memory shared with the daemon. Only the scribe writes to it after its start; each number that
 * changes is one atomic store. */
struct scribe_page {
	uint32_t answers; /* 1 when the output is open or failed to open; then 1 more for each order
			     but ORDER_PUT */
	uint32_t state;	  /* enum store_state */
	uint64_t progress;    /* grows whenever the output takes something */
	uint64_t patience_ns; /* how long `progress` may stay the same in the present step */
	uint64_t bytes;	      /* size of the file */
	uint64_t safe_bytes;  /* encoded bytes of the records that are in the file */
	uint64_t safe_events;
	uint64_t dropped_events; /* events that could not be written */

	/* Valid once `answers` is 1; `text` and `appended` again with each change of `state` or
	 * `answers`. */
	bool failed; /* to open the output: `code`, `sys` and `text` are the error */
	enum ht_err_code code;
	int sys;
	char text[SCRIBE_TEXT_BYTES]; /* that error; later the reason for `state` */
	char appended[200];	      /* what the appended names lack; "": nothing */
	char beside[256];	      /* store_status.beside */
};

/* Adds records after the last one. `problem`: receives one line for the user if some are missing.
 * Returns HT_ERR_NOMEM, but no error of the output. */
typedef struct ht_err *scribe_append(
	struct store *store, void *context, char *problem, size_t problem_bytes);

struct scribe_options {
	struct store_options store;
	scribe_append *append; /* called in the scribe; NULL: nothing is added */
	void *context;
	int kept_fd; /* for `append`, which finds it as SCRIBE_KEPT_FD; -1: none */
	uint64_t patience_ns;
};

#define SCRIBE_KEPT_FD APART_SECOND_FD

/* Call it in a process that was just forked. Opens the output and carries out the orders from the
 * pipe `fd`, until ORDER_FINISH, ORDER_FINISH_NAMED or ORDER_DISCARD. If the pipe is closed, or
 * `parent` (0: any) is no longer the parent, writes what it has and exits. Blocks all signals, and
 * closes all descriptors but these, kept_fd and, for the path "-", standard output. */
_Noreturn void scribe_run(
	int fd, pid_t parent, struct scribe_page *page, const struct scribe_options *options);
