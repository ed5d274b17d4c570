/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that writes the trace. It alone holds the output, so that it alone waits when a file
 * system or a reader does not answer; orders come to it through a pipe. sink.c starts it, and ends
 * it when it does not get on.
 */
#pragma once

#include <sys/types.h>

#include "attach/daemon/apart.h"
#include "attach/daemon/orders.h"
#include "attach/daemon/store.h"

#define SCRIBE_TEXT_BYTES 1024u

/* Memory shared by both. Written by the scribe alone, word by word. */
struct scribe_page {
	uint32_t answers;     /* orders carried out; the first one is to open the output */
	uint32_t state;	      /* enum store_state */
	uint64_t progress;    /* changes as long as the output takes something */
	uint64_t patience_ns; /* how long `progress` may stay the same in the present step */
	uint64_t bytes;	      /* of the file */
	uint64_t safe_bytes;  /* of the records put: those that stand in it */
	uint64_t safe_events;
	uint64_t dropped_events; /* could not be written */

	/* Valid once `answers` or `state` says so. */
	bool failed; /* to open: `code`, `sys`, `text` */
	enum ht_err_code code;
	int sys;
	char text[SCRIBE_TEXT_BYTES]; /* the error; later what is wrong with the output */
	char appended[200];	      /* what is wrong with what was appended */
	char beside[256];	      /* store_status.beside */
};

/* Adds records behind the last one. `problem`: what was not possible, for a person. Errors are our
 * own (memory). */
typedef struct ht_err *scribe_append(
	struct store *store, void *context, char *problem, size_t problem_bytes);

struct scribe_options {
	struct store_options store;
	scribe_append *append; /* called in this process; NULL: nothing is added */
	void *context;
	int kept_fd; /* for `append`, which finds it as SCRIBE_KEPT_FD; -1: none */
	uint64_t patience_ns;
};

#define SCRIBE_KEPT_FD APART_SECOND_FD

/* The process, just forked: opens the output and carries out what comes from `fd` until the order
 * to finish, or until the pipe is closed or `parent` (0: any) is not its parent any more: then it
 * writes the rest. All other descriptors are closed, all signals blocked. */
_Noreturn void scribe_run(
	int fd, pid_t parent, struct scribe_page *page, const struct scribe_options *options);
