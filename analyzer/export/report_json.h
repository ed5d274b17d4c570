/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object, "heaptap.report/2": stable names, integers for bytes and
 * nanoseconds, sorted by outstanding bytes unless another order is wanted.
 */
#pragma once

#include <jansson.h>
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
	/* Members that are written, ended by NULL; they are the same as among the others. NULL:
	 * all. */
	const char *const *member;
};

HT_MUST_CHECK
struct ht_err *report_json_write(
	FILE *out, const struct view *view, const struct report_json_options *options);

/* Members of the report, for others that print the same; NULL: out of memory. */
json_t *report_json_target(const struct model *model);
json_t *report_json_capture(const struct model *model);
json_t *report_json_window(const struct view *view);
json_t *report_json_totals(const struct view *view);
json_t *report_json_heap(const struct analysis *analysis);
json_t *report_json_marks(const struct model *model);
json_t *report_json_pauses(const struct model *model);
