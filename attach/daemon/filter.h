/* SPDX-License-Identifier: Apache-2.0
 *
 * The process of --cull: stands between the daemon's queue and the scribe, and passes on sums of
 * short-lived blocks instead of their events (format/cull). It has no rights and no file but its
 * two pipes, and memory for the live blocks of the target. sink.c starts it. When memory runs short
 * the kernel ends it before others: then the capture ends, and the target goes on.
 */
#pragma once

#include <sys/types.h>

#include "attach/daemon/orders.h"

/* Memory shared with the daemon. Written by the filter alone, word by word. */
struct filter_page {
	uint64_t live_blocks;
	uint64_t table_bytes; /* cull_sizes.bytes */
	/* Valid when the process has ended; neither: it was killed. */
	bool ended;  /* by itself: the daemon or the scribe has ended */
	bool failed; /* `text` says why */
	char text[200];
};

struct filter_options {
	uint64_t cull_ns;
	int from, to; /* pipes: orders of the daemon, and those to the scribe */
	pid_t parent;
	struct filter_page *page;
};

/* The process, just forked from `parent`: passes on orders until its parent ends or closes the
 * pipe, then what it holds. Ends with 0, also when the scribe has ended, or with 1 if `page` says
 * why. */
_Noreturn void filter_run(const struct filter_options *options);
