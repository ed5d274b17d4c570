/* SPDX-License-Identifier: Apache-2.0
 *
 * The line on a terminal that says how a capture gets on, rewritten once a second.
 */
#pragma once

#include "format/control.h"

#define PROGRESS_BYTES 256u

struct progress {
	const char *output;	/* of the trace, borrowed: whose disk may become full; "-": none */
	uint64_t reserve_bytes; /* that heaptap leaves free there */
	size_t shown;		/* columns of the line on the terminal; 0: none */
};

/* From here on `progress`, or none (NULL), is the one that progress_say clears. */
void progress_begin(struct progress *progress);

/* Prints a line of its own for good, above the one that is rewritten; drops it likewise. */
void progress_say(const char *line);

/* Shows the line; drops it when the terminal takes nothing. `context`: a struct progress. For
 * steered_watch. */
void progress_show(void *context, const struct control_reply *status);
/* Clears the line: others may print. */
void progress_clear(struct progress *progress);

/* The text, in at most `columns`; the last parts are left out first. `free_bytes`: room for the
 * trace; UINT64_MAX: unknown. */
void progress_text(const struct control_reply *status, uint64_t free_bytes, size_t columns,
	char ret[PROGRESS_BYTES]);
