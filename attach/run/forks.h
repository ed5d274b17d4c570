/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the children of a recorded process: each child gets a process of heaptap that records it,
 * its recorder. A recorder does the same for the children of its child. All recorders of a command
 * share two limits: 16 of them work at once, and they make 128 traces in all. Children beyond these
 * limits run unrecorded, and heaptap counts them.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/cli/options.h"
#include "format/err.h"

struct forks;
struct heritage;
struct launch;

/* A process to be recorded: a command, or a child. */
struct forks_process {
	const struct options *options;
	uint64_t end_ns;      /* CLOCK_MONOTONIC; 0: no end */
	struct forks *forks;  /* records the process's children; NULL: they are not recorded */
	bool is_child;	      /* forked by a recorded process; not a command that heaptap started */
	uint64_t start_ticks; /* of a child: field 22 of its stat */
	const struct heritage *heritage; /* of a child: what it may have inherited (children.h) */
};

/* Records one process until it ends. `launch` is borrowed, and updated. For a child it runs in the
 * recorder. */
typedef struct ht_err *forks_record(const struct forks_process *process, struct launch *launch);

/* For the children of a command. `options` is borrowed until forks_destroy. Children are recorded
 * until `end_ns` (CLOCK_MONOTONIC); 0: without such an end. */
HT_MUST_CHECK
struct ht_err *forks_create(
	const struct options *options, uint64_t end_ns, forks_record *record, struct forks **ret);
void forks_destroy(struct forks *forks); /* accepts NULL */

/* For session_options.forks; valid as long as `forks`. Accepts NULL, and returns it. */
struct session_forks *forks_session(struct forks *forks);
/* Counts one more trace. False: the limit of traces is reached. */
bool forks_take(struct forks *forks);

/* Call it when the command has ended. Recorders of children that still live detach; all recorders
 * complete their traces. Returns when all have ended, or after a minute. */
void forks_end(struct forks *forks);
/* Prints how many children were not recorded and the first reason; nothing with --quiet, or if
 * there are none. */
void forks_tell(const struct forks *forks);
