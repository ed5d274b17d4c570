/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that say when captures of one process begin and end, and which traces stay.
 */
#pragma once

#include "attach/cli/option_table.h"
#include "attach/process/growth.h"
#include "format/err.h"

#define SERIES_PUSH_MAX 4u

struct series_options {
	uint64_t delay_ns; /* before the first window */
	uint64_t every_ns; /* from a window's begin to the next one's; 0: no such time */
	uint64_t count;	   /* of windows; 0: not given */
	uint64_t keep;	   /* traces of the series; 0: all */
	/* A window waits for these; bytes 0: it does not. */
	uint64_t trigger_rss_bytes;
	struct growth_limit trigger_growth;
	/* These end it. */
	uint64_t until_rss_bytes;
	struct growth_limit until_growth;
	uint64_t max_bytes; /* of the trace */
	bool rotate;	    /* then the next window begins */
	const char *exec;   /* command for each finished trace; NULL: none */
	const char
		*push[SERIES_PUSH_MAX]; /* addresses that get each finished trace; NULL: no more */
};

/* Applies an option of a series; `*ret_is_one` false: it is another option. */
HT_MUST_CHECK
struct ht_err *series_apply(
	struct series_options *series, enum option_id id, const char *value, bool *ret_is_one);

/* Refuses options that need others or exclude them. `duration_ns`: of -d and --settle; 0: without
 * -d.
 */
HT_MUST_CHECK
struct ht_err *series_check(
	const struct series_options *series, uint64_t duration_ns, bool to_stdout);

/* Can there be more than one window? */
bool series_has_several(const struct series_options *series);
bool series_has_trigger(const struct series_options *series);
/* Does heaptap wait before the first window? */
bool series_waits(const struct series_options *series);
