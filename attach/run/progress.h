/* SPDX-License-Identifier: Apache-2.0
 *
 * A line on the terminal with the progress of a capture, rewritten once a second.
 */
#pragma once

#include "format/control.h"

#define PROGRESS_BYTES 256u

struct progress {
	const char *output; /* path of the trace, borrowed, for the free space of its file system;
			       "-": standard output */
	uint64_t reserve_bytes; /* how much heaptap leaves free there */
	size_t shown;		/* columns of the line that is on the terminal; 0: none */
};

/* From here on progress_say clears the line of `progress`; NULL: no line. */
void progress_begin(struct progress *progress);

/* Clears the progress line and prints `line` in its place, for good; prints nothing if the terminal
 * is stopped. */
void progress_say(const char *line);

/* Rewrites the line; does nothing if the terminal is stopped. `context`: a struct progress. For
 * steered_watch. */
void progress_show(void *context, const struct control_reply *status);
/* Clears the line, so that other functions may print. */
void progress_clear(struct progress *progress);

/* Writes the text of the line, at most `columns` wide, without the parts that do not fit.
 * `free_bytes`: free space for the trace; UINT64_MAX: unknown. */
void progress_text(const struct control_reply *status, uint64_t free_bytes, size_t columns,
	char ret[PROGRESS_BYTES]);
