/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object, "heaptap.report/2": stable names, integers for bytes and
 * nanoseconds, sorted by outstanding bytes unless another order is wanted.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "analyzer/export/report_options.h"

HT_MUST_CHECK
struct ht_err *report_json_write(
	FILE *out, const struct view *view, const struct report_options *options);

/* Members of the report that other outputs contain too; NULL: out of memory. */
json_t *report_json_target(const struct model *model);
json_t *report_json_capture(const struct model *model);
json_t *report_json_window(const struct view *view);
json_t *report_json_totals(const struct view *view);
json_t *report_json_heap(const struct analysis *analysis);
json_t *report_json_marks(const struct model *model);
json_t *report_json_pauses(const struct model *model);
/* `*ret` NULL: out of memory. */
HT_MUST_CHECK
struct ht_err *report_json_warnings(const struct view *view, json_t **ret);
/* JSON null if the capture did not settle. */
json_t *report_json_settle(const struct model *model);
