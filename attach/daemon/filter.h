/* SPDX-License-Identifier: Apache-2.0
 *
 * The process of --cull: reads the orders of the daemon, and passes them on to the scribe with sums
 * of short-lived blocks instead of their events (format/cull). It has no rights, has no file open
 * but its two pipes, and keeps the live blocks of the target in memory. writers.c starts it. When
 * memory runs short, the kernel kills the filter before other processes: then the capture ends, and
 * the target goes on.
 */
#pragma once

#include <sys/types.h>

#include "attach/daemon/orders.h"

/* Memory shared with the daemon. Only the filter writes to it; each number is one atomic store. */
struct filter_page {
	uint64_t live_blocks;
	uint64_t table_bytes; /* cull_sizes.bytes */
	/* Valid when the process has ended. If neither is set, the process was killed. */
	bool ended;  /* after the last order, or because the daemon or the scribe has ended */
	bool failed; /* `text` says why */
	char text[200];
};

struct filter_options {
	uint64_t cull_ns;
	int from, to; /* pipes: from the daemon, and to the scribe */
	pid_t parent;
	struct filter_page *page;
};

/* Call it in a process just forked from `parent`. Passes on orders until the parent ends or closes
 * the pipe, and then the blocks that it still holds. Exits with 0, also if the scribe has ended;
 * after an error with 1, and page->text names the error. */
_Noreturn void filter_run(const struct filter_options *options);
