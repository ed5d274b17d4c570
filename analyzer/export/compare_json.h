/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a comparison of traces: "heaptap.compare/1", and as CSV.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "analyzer/views/compare.h"

/* Writes the first `limit` entries (0: all) of a sorted comparison; `path` names each view. */
HT_MUST_CHECK
struct ht_err *compare_json_write(FILE *out, const struct compare *compare, const char *const *path,
	enum metric metric, size_t limit);
/* An array of the traces: path, program, start, window and sums; NULL: no memory. */
json_t *compare_json_traces(const struct compare *compare, const char *const *path);
/* Writes one line per entry: change, the figure of each view (compare_rate), function, file, line;
 * in a sample also bounds. */
void compare_csv_write(FILE *out, const struct compare *compare, enum metric metric, size_t limit);
