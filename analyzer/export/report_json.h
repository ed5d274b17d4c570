/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for programs: one JSON object, "schema":"heaptap.report/2".
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

/* Writes the report with the `limit` first stacks (0: all), by outstanding and then by allocated
 * bytes. Stacks have all their frames, and say which of them the views pass over. */
HT_MUST_CHECK
struct ht_err *report_json_write(FILE *out, const struct view *view, size_t limit);
