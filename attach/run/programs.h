/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a process from program to program: each that it becomes by exec has a trace of its own.
 */
#pragma once

#include "attach/cli/options.h"
#include "attach/run/forks.h"
#include "attach/run/launch.h"

struct programs_options {
	const struct options *options;
	uint64_t end_ns;      /* CLOCK_MONOTONIC; 0: the end of the last one */
	struct forks *forks;  /* records its children; NULL: they are not recorded */
	bool is_child;	      /* forked by a recorded process; not a command that heaptap started */
	uint64_t start_ticks; /* of a child (proc/proc.h) */
	const struct heritage *heritage; /* of a child (children.h) */
};

/* The process goes on in any case. An error: not even the first program was recorded; the caller
 * reports it. */
HT_MUST_CHECK
struct ht_err *programs_record(const struct programs_options *options, struct launch *launch);
/* A forks_record. */
HT_MUST_CHECK
struct ht_err *programs_record_child(const struct forks_child *child, struct launch *launch);
