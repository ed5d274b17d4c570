/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits that end a window before its duration is over: the target's memory, the trace's size, or a
 * function of the caller.
 */
#pragma once

#include "attach/steer/growth.h"
#include "format/record.h"

struct limits_options {
	uint64_t rss_bytes;	    /* ends the window at this RSS of the target; 0: no limit */
	struct growth_limit growth; /* ends it when RSS has grown so much in the window */
	uint64_t trace_bytes;	    /* ends it at this trace size, without names; 0: no limit */
	/* called every few milliseconds; true ends the window; NULL: none */
	bool (*is_over)(void *context);
	void *context;
};

struct limits {
	struct limits_options options;
	struct growth growth;
};

void limits_begin(struct limits *limits, const struct limits_options *options);
/* Is a limit reached? `rss_bytes`: RSS of the target, 0: unknown; `trace_bytes`: size of the trace
 * so far. `ret`: the reason, set only if the result is true. */
bool limits_reached(struct limits *limits, uint64_t now_mono_ns, uint64_t rss_bytes,
	uint64_t trace_bytes, enum rec_end_reason *ret);
