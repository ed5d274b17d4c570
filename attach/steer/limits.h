/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends a window besides its time: memory of the target, the size of the trace, the caller.
 */
#pragma once

#include "attach/process/growth.h"
#include "format/record.h"

struct limits_options {
	uint64_t rss_bytes;		/* the target has so much; 0: no limit */
	struct growth_limit growth;	/* RSS has grown by so much in the window */
	uint64_t trace_bytes;		/* the trace has so much, without names; 0: no limit */
	bool (*is_over)(void *context); /* asked every few milliseconds; NULL: never */
	void *context;
};

struct limits {
	struct limits_options options;
	struct growth growth;
};

void limits_begin(struct limits *limits, const struct limits_options *options);
/* `rss_bytes` 0: unknown. `*ret` is set when the answer is true. */
bool limits_reached(struct limits *limits, uint64_t now_mono_ns, uint64_t rss_bytes,
	uint64_t trace_bytes, enum rec_end_reason *ret);
