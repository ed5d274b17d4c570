/* SPDX-License-Identifier: Apache-2.0
 *
 * The finished traces of a series: the oldest go, and a command is run for each.
 */
#pragma once

#include <sys/types.h>

#include "attach/jobs/crew.h"
#include "format/base.h"

struct finished {
	uint64_t keep;	     /* traces that stay; 0: all */
	const char *command; /* for each, split at spaces; NULL: none */
	struct finished_trace {
		struct finished_file {
			char *path; /* owned; NULL: there is none */
			dev_t device;
			ino_t inode;
		} trace, page;
	} * kept; /* those that stay, oldest first */
	size_t count;
	struct crew crew; /* of commands; crew_wait prints those that failed */
};

/* A trace is whole: starts the command, whose end is not waited for, and removes the oldest trace
 * of the series with its page, if there are too many. Prints what fails. */
void finished_add(struct finished *finished, const char *path, const char *page);
void finished_deinit(struct finished *finished);
