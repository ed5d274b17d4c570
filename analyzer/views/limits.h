/* SPDX-License-Identifier: Apache-2.0
 *
 * Thresholds for continuous integration, and whether a view exceeds them. The measures ignore
 * noise: outstanding is the lowest total in the last tenth of the window, so a request that is
 * being served does not count; growth counts only sites classified as growing with a confidence of
 * at least 0.5; an increase is
 * measured from the highest total in the baseline's last tenth to the lowest in the new window's
 * last tenth, and counts from 64 KiB on. Windows of different lengths are compared as in compare.h.
 * In a sample a threshold is exceeded only by more than the bound of the figure at 95 %
 * (query/metric.h).
 */
#pragma once

#include "analyzer/views/suspects.h"

struct limits {
	bool has_growth, has_outstanding, has_increase;
	double growth_bytes_per_s;
	uint64_t outstanding_bytes;
	double increase; /* 0.05: 5 % */
};

/* Parses "1M/min", "64k/s", "2G/h". Returns NULL, or a message that names the fault. */
const char *limits_parse_rate(const char *text, double *ret_bytes_per_s);
/* Parses "5%", "0.5%"; returns as limits_parse_rate. */
const char *limits_parse_percent(const char *text, double *ret);

#define LIMITS_FROM_NOTHING 1e9 /* the increase if the baseline is 0 */

enum limits_kind { LIMITS_GROWTH, LIMITS_OUTSTANDING, LIMITS_INCREASE };

struct limits_violation {
	enum limits_kind kind;
	uint32_t row;	     /* of the view; UINT32_MAX: the whole view */
	double value, limit; /* bytes per second; bytes; a fraction */
	double bound;	     /* of the value; 0: exact, or subtracted already (LIMITS_INCREASE) */
};

struct limits_result {
	uint64_t outstanding_bytes; /* as defined above: the lowest total of the last tenth */
	double growth_bytes_per_s;  /* of all sites that grow */
	/* In a sample: the bounds of these two at 95 %; otherwise 0. */
	double outstanding_bound_bytes, growth_bound_bytes_per_s;
	double increase; /* against the baseline; 0 without one */
	/* Why growth cannot be judged: the finding about the largest unclear site, if unclear sites
	 * hold most bytes and none grows; otherwise "". */
	char unclear[SUSPECT_TEXT_BYTES];
	struct limits_violation *violation;
	size_t count;
};

/* `baseline` may be NULL if no limit of the increase is set. */
HT_MUST_CHECK
struct ht_err *limits_check(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret);
void limits_result_deinit(struct limits_result *result);
