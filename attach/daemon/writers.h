/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that take orders from the daemon's queue: the scribe, with --cull the filter before
 * it, and the shared pages on which they show their progress.
 */
#pragma once

#include "attach/daemon/filter.h"
#include "attach/daemon/scribe.h"

#define WRITERS_PIPE_BYTES (1u << 20) /* of the pipe, if the kernel allows it */

struct writers {
	pid_t scribe, filter; /* -1: has ended, survived SIGKILL, or there is none */
	int fd;		      /* the pipe to the first of them, non-blocking; -1: closed */
	struct scribe_page *page;
	struct filter_page *filter_page; /* NULL: there is no filter */
};

#define WRITERS_NONE                                                                               \
	(struct writers)                                                                           \
	{                                                                                          \
		.scribe = -1, .filter = -1, .fd = -1                                               \
	}

/* Starts the processes. `cull_ns` 0: without a filter. Call writers_kill and writers_deinit also
 * after an error. */
HT_MUST_CHECK
struct ht_err *writers_start(
	struct writers *writers, const struct scribe_options *options, uint64_t cull_ns);
/* Frees the pages. The processes have ended, or were given up by writers_kill. */
void writers_deinit(struct writers *writers);

/* Closes the pipe: the processes write what they have, and end. */
void writers_close(struct writers *writers);
/* Closes the pipe, and waits for the end of each process, for `patience_ns` each. False: a process
 * still runs. */
bool writers_end(struct writers *writers, uint64_t patience_ns);
/* Closes the pipe, kills the processes, and waits up to 1 s for the end of each. A process that
 * survives is left to init. */
void writers_kill(struct writers *writers);

/* Call it when the pipe has no reader. Has the filter failed, or was it killed? Then waits until
 * the scribe has written the orders that it got, at most `patience_ns`, and writes the reason to
 * `ret_why`. */
bool writers_lost_filter(
	struct writers *writers, uint64_t patience_ns, char *ret_why, size_t bytes);
/* Does one of the processes wait for a processor, or was it stopped? Continues a stopped one
 * (SIGCONT). */
bool writers_are_held_up(const struct writers *writers);
