/* SPDX-License-Identifier: Apache-2.0
 *
 * Finished traces that go to Pyroscope or ClickHouse (--push): heaptap-analyze push sends them, at
 * low priority, while heaptap goes on. What an endpoint does not take waits in a spool on the disk.
 */
#pragma once

#include "attach/cli/series.h"
#include "attach/jobs/crew.h"

/* Zero-initialised but for `address` is valid; without an address nothing happens. */
struct push {
	/* SERIES_PUSH_MAX of them, borrowed, from the first NULL on unused */
	const char *const *address;
	bool quiet;	  /* print errors only */
	struct crew crew; /* of those that send */
};

/* HT_ERR_SYS where there is no heaptap-analyze to push with. */
HT_MUST_CHECK
struct ht_err *push_check(const struct push *push);
/* Sends a whole trace to each address. Does not wait. */
void push_start(struct push *push, const char *trace);
