/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object, "heaptap.report/2": stable names, integers for bytes and
 * nanoseconds, sorted by outstanding bytes unless another order is wanted.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_json_options {
	size_t limit;	   /* of stacks, and of a table's rows; 0: all */
	enum metric order; /* of stacks, and of a table's rows */
	bool has_class;	   /* only suspects and stacks of one class */
	enum suspect_class of_class;
	bool has_by; /* one table more: "breakdown" */
	enum breakdown_by by;
};

HT_MUST_CHECK
struct ht_err *report_json_write(
	FILE *out, const struct view *view, const struct report_json_options *options);
