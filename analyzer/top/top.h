/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap top: a live table of what a process allocates and holds.
 */
#pragma once

#include "analyzer/top/feed.h"

struct top_config {
	pid_t pid;
	uint64_t delay_ns; /* between two tables */
	uint64_t tables;   /* batch mode: how many; 0: until the capture ends */
	size_t rows;	   /* batch mode: of a table; 0: all */
	bool is_batch, is_json, is_wide;
	enum terminal_color color;
	struct listing_options options; /* at the beginning */
	struct feed_tasks tasks;
};

/* Shows tables until the user ends top, or a signal does; in batch mode also until the last table,
 * or the end of the capture. Ends a capture that it started. Errors: those of the terminal,
 * feed_open and feed_close. */
HT_MUST_CHECK
struct ht_err *top_run(const struct top_config *config);
