/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that writes the trace. It alone holds the output, so that it alone waits when a file
 * system or a reader does not answer; records come to it through a pipe. sink.c starts it, and ends
 * it when it does not get on.
 */
#pragma once

#include <sys/types.h>

#include "attach/daemon/store.h"

#define SCRIBE_TEXT_BYTES 1024u

enum scribe_kind {
	SCRIBE_PUT = 1,	     /* a record follows, as rec_encode makes it */
	SCRIBE_FLUSH,	     /* answered when all before it is written, or cannot be */
	SCRIBE_FINISH,	     /* the same, and the file is complete; then the process ends */
	SCRIBE_FINISH_NAMED, /* with what `append` adds */
	SCRIBE_DISCARD,	     /* nothing was captured; then the process ends */
};

/* A message in the pipe. */
struct scribe_message {
	uint32_t kind;
	uint32_t length; /* of the record */
	uint64_t events; /* in it */
};

/* Memory shared by both. Written by the scribe alone, word by word. */
struct scribe_page {
	uint32_t answers;     /* orders carried out; the first one is to open the output */
	uint32_t state;	      /* enum store_state */
	uint64_t progress;    /* changes as long as the output takes something */
	uint64_t patience_ns; /* how long it may stay as it is, in what is being done now */
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
	char beside[256];	      /* store_beside() */
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

#define SCRIBE_KEPT_FD 4

/* The process, just forked from `parent`: opens the output and carries out what comes from `fd`
 * until the message to finish, or until its parent ends or closes the pipe: then it writes the
 * rest. All other descriptors are closed, all signals blocked. */
_Noreturn void scribe_run(
	int fd, pid_t parent, struct scribe_page *page, const struct scribe_options *options);
