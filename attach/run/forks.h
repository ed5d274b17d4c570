/* SPDX-License-Identifier: Apache-2.0
 *
 * The children of a process that is recorded: each is noticed, and given to a process of ours that
 * records it, the recorder. A bound on them all, whoever notices whose children, is shared by all
 * recorders: what is over it runs unrecorded, and is counted.
 */
#pragma once

#include "attach/steer/options.h"
#include "attach/cli/options.h"
#include "format/err.h"

struct forks;
struct heritage;
struct launch;

/* A child to be recorded. */
struct forks_child {
	const struct options *options;
	uint64_t end_ns;     /* CLOCK_MONOTONIC; 0: no end */
	struct forks *forks; /* records the child's children */
	uint64_t start_ticks;
	const struct heritage *heritage;
};

/* Records one child until it ends; takes `launch`. Runs in the recorder. */
typedef struct ht_err *forks_record(const struct forks_child *child, struct launch *launch);

/* For a command; `options` must stay. Children are recorded until `end_ns` (CLOCK_MONOTONIC), 0:
 * without such an end. */
HT_MUST_CHECK
struct ht_err *forks_create(
	const struct options *options, uint64_t end_ns, forks_record *record, struct forks **ret);
void forks_destroy(struct forks *forks); /* accepts NULL */

/* For session_options.forks; valid as long as `forks`. Accepts NULL, and returns it. */
struct session_forks *forks_session(struct forks *forks);
/* May one more trace be made? */
bool forks_take(struct forks *forks);

/* The command has ended: the recorders of what still lives take their taps out, all complete their
 * traces. Returns when they have ended; a minute at most. */
void forks_end(struct forks *forks);
/* Prints, once, how many children were not recorded and why. */
void forks_tell(const struct forks *forks);
