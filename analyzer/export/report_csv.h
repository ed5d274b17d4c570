/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as comma-separated values (RFC 4180): a line of names, then a line for each site, or
 * for each row of one table. Figures are exact; names are without control characters.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_csv_options {
	size_t limit; /* of rows; 0: all */
	enum metric order;
	bool has_class; /* only sites of one class */
	enum suspect_class of_class;
	bool has_by; /* a table instead of sites */
	enum breakdown_by by;
};

HT_MUST_CHECK
struct ht_err *report_csv_write(
	FILE *out, const struct view *view, const struct report_csv_options *options);
