/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as comma-separated values (RFC 4180): a line of names, then a line for each site, or
 * for each row of one table. Figures are not rounded; names are without control characters.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/report_options.h"

HT_MUST_CHECK
struct ht_err *report_csv_write(
	FILE *out, const struct view *view, const struct report_options *options);
