/* SPDX-License-Identifier: Apache-2.0
 *
 * Thresholds for continuous integration, and how a view holds against them. Noise does not exceed
 * them: outstanding is the lowest total of the last tenth of the window, so a request that is being
 * served does not count; growth is that of sites classified as growing; an increase is from the
 * highest total of the baseline's last tenth to the lowest of the new one's, and 64 KiB at least.
 * Windows of different lengths are compared as in compare.h.
 */
#pragma once

#include "analyzer/views/suspects.h"

struct limits {
	bool has_growth, has_outstanding, has_increase;
	double growth_bytes_per_s;
	uint64_t outstanding_bytes;
	double increase; /* 0.05: 5 % */
};

/* "1M/min", "64k/s", "2G/h"; NULL, or what is wrong with it. */
const char *limits_parse_rate(const char *text, double *ret_bytes_per_s);
/* "5%", "0.5%"; likewise. */
const char *limits_parse_percent(const char *text, double *ret);

#define LIMITS_FROM_NOTHING 1e9 /* an increase where the baseline has nothing */

enum limits_kind { LIMITS_GROWTH, LIMITS_OUTSTANDING, LIMITS_INCREASE };

struct limits_violation {
	enum limits_kind kind;
	uint32_t row;	     /* of the view; UINT32_MAX: all of it */
	double value, limit; /* bytes per second; bytes; a fraction */
};

struct limits_result {
	uint64_t outstanding_bytes; /* as above */
	double growth_bytes_per_s;  /* of all sites that grow */
	double increase;	    /* against the baseline; 0 without one */
	struct limits_violation *violation;
	size_t count;
};

/* `baseline` may be NULL where there is no limit of the increase. */
HT_MUST_CHECK
struct ht_err *limits_check(const struct limits *limits, const struct view *view,
	const struct view *baseline, struct limits_result *ret);
void limits_result_deinit(struct limits_result *result);
