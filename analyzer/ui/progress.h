/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on standard error, only on a terminal. It appears after half a second and is drawn
 * ten times a second.
 */
#pragma once

#include <stdio.h>

#include "analyzer/ui/terminal.h"

struct progress {
	FILE *out;	  /* NULL: nothing is shown */
	const char *what; /* "reading my.htap" */
	uint64_t total;	  /* bytes; 0: unknown */
	uint64_t next_ns; /* time of the next drawing */
	unsigned columns;
	bool is_shown;
};

/* Begins at `now_ns` of CLOCK_MONOTONIC. `what` is borrowed until progress_end. `terminal`
 * describes `out`; shows nothing if the terminal cannot erase a line. */
struct progress progress_begin(FILE *out, const struct terminal *terminal, const char *what,
	uint64_t total, uint64_t now_ns);
/* `done` of `total` bytes are read. Cheap enough for each block of a trace. */
void progress_update(struct progress *progress, uint64_t done, uint64_t now_ns);
/* Erases the bar. Idempotent. Call it before anything else is printed to the terminal. */
void progress_end(struct progress *progress);
