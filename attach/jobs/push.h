/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends finished traces to Pyroscope or ClickHouse (--push): runs heaptap-analyze push for each, at
 * low priority, while heaptap goes on. heaptap-analyze keeps what an endpoint does not take in a
 * spool on the disk.
 */
#pragma once

#include "attach/cli/series.h"
#include "attach/jobs/crew.h"

/* Valid with `address` set and the rest zero-initialised. Without an address the functions do
 * nothing. */
struct push {
	/* SERIES_PUSH_MAX addresses, borrowed; unused from the first NULL on */
	const char *const *address;
	bool quiet;	  /* print errors only */
	struct crew crew; /* the processes that send */
};

/* HT_ERR_SYS if there is an address and heaptap-analyze is missing. */
HT_MUST_CHECK
struct ht_err *push_check(const struct push *push);
/* Starts to send a finished trace to each address. Does not wait. Prints a warning if CREW_MAX
 * processes still send, or fork fails. */
void push_start(struct push *push, const char *trace);
