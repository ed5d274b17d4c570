/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes behind the daemon's queue: the scribe, with --cull the filter before it, and the
 * pages on which they show how far they are.
 */
#pragma once

#include "attach/daemon/filter.h"
#include "attach/daemon/scribe.h"

#define WRITERS_PIPE_BYTES (1u << 20) /* of the pipe to them, if the kernel allows it */

struct writers {
	pid_t scribe, filter; /* -1: has ended, cannot be ended, or there is none */
	int fd; /* takes orders for the first of them and does not block; -1: closed */
	struct scribe_page *page;
	struct filter_page *filter_page; /* NULL: there is no filter */
};

#define WRITERS_NONE                                                                               \
	(struct writers)                                                                           \
	{                                                                                          \
		.scribe = -1, .filter = -1, .fd = -1                                               \
	}

/* Starts them. `cull_ns` 0: without a filter. To be ended with writers_kill and writers_deinit also
 * after an error. */
HT_MUST_CHECK
struct ht_err *writers_start(
	struct writers *writers, const struct scribe_options *options, uint64_t cull_ns);
/* Frees the pages; no process has to be left. */
void writers_deinit(struct writers *writers);

/* No more orders: they write what they have, and end. */
void writers_close(struct writers *writers);
/* Closes, and waits this long for the end of each. False: one goes on. */
bool writers_end(struct writers *writers, uint64_t patience_ns);
/* Closes, and ends them now. */
void writers_kill(struct writers *writers);

/* Has the filter ended although scribe and daemon had not? Then waits until the scribe has written
 * what came before, at most `patience_ns`, and says why in `ret_why`. */
bool writers_lost_filter(
	struct writers *writers, uint64_t patience_ns, char *ret_why, size_t bytes);
/* Does one of them wait for a processor, or was it stopped? Such a one is continued. */
bool writers_are_held_up(const struct writers *writers);
