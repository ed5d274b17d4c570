/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a process from program to program: each that it becomes by exec has a trace of its own.
 */
#pragma once

#include "attach/cli/options.h"
#include "attach/run/launch.h"

struct forks;
struct heritage;

struct programs_options {
	const struct options *options;
	uint64_t end_ns;      /* CLOCK_MONOTONIC; 0: the end of the last one */
	struct forks *forks;  /* who records its children; NULL: nobody */
	bool is_child;	      /* it is no command of ours, but was forked by one that is recorded */
	uint64_t start_ticks; /* of a child (proc/proc.h) */
	const struct heritage *heritage; /* of a child (children.h) */
};

/* Whatever the reason, the process goes on. An error: not even the first program was recorded, and
 * nobody has said so. */
HT_MUST_CHECK
struct ht_err *programs_record(const struct programs_options *options, struct launch *launch);
