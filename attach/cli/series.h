/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that decide when the captures of a series begin and end, and which traces are kept.
 */
#pragma once

#include "attach/cli/option_table.h"
#include "attach/steer/growth.h"
#include "format/err.h"

#define SERIES_PUSH_MAX 4u

struct series_options {
	uint64_t delay_ns; /* before the first window */
	uint64_t every_ns; /* from one window's beginning to the next; 0: not given */
	uint64_t count;	   /* number of windows; 0: not given */
	uint64_t keep;	   /* how many traces of the series are kept; 0: all */
	/* The next window waits for these; bytes 0: it does not wait. */
	uint64_t trigger_rss_bytes;
	struct growth_limit trigger_growth;
	/* These end a window; 0: not given. */
	uint64_t until_rss_bytes;
	struct growth_limit until_growth;
	uint64_t max_bytes; /* size of the trace */
	bool rotate;	    /* after a window that max_bytes ended, the next begins */
	const char *exec;   /* command for each finished trace; NULL: none */
	/* addresses that get each finished trace; NULL: no more */
	const char *push[SERIES_PUSH_MAX];
};

/* Applies option `id` if it is an option of a series. `*ret_is_one`: whether it is. */
HT_MUST_CHECK
struct ht_err *series_apply(
	struct series_options *series, enum option_id id, const char *value, bool *ret_is_one);

/* Refuses options of a series that lack or exclude others. `duration_ns`: of -d and --settle; 0: no
 * -d. `to_stdout`: the trace goes to standard output. */
HT_MUST_CHECK
struct ht_err *series_check(
	const struct series_options *series, uint64_t duration_ns, bool to_stdout);

/* Can there be more than one window? */
bool series_has_several(const struct series_options *series);
bool series_has_trigger(const struct series_options *series);
/* Does heaptap wait before the first window? */
bool series_waits(const struct series_options *series);
