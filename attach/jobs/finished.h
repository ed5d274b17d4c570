/* SPDX-License-Identifier: Apache-2.0
 *
 * The finished traces of a series: heaptap runs a command for each, and removes the oldest.
 */
#pragma once

#include <sys/types.h>

#include "attach/jobs/crew.h"
#include "format/base.h"

struct finished {
	uint64_t keep;	     /* how many traces stay; 0: all */
	const char *command; /* run for each trace, which is its last argument; split at spaces;
				NULL: none */
	struct finished_trace {
		struct finished_file {
			char *path; /* owned; NULL: there is none */
			dev_t device;
			ino_t inode;
		} trace, page;
	} * kept; /* the traces that stay, oldest first */
	size_t count;
	struct crew crew; /* the commands that run; crew_wait prints which of them failed */
};

/* Call it when a trace is finished. Starts the command and does not wait for it; removes the oldest
 * trace of the series and its page, if there are more than `keep`. `page`: NULL if there is none.
 * Prints a warning for what fails. */
void finished_add(struct finished *finished, const char *path, const char *page);
void finished_deinit(struct finished *finished);
