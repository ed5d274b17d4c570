/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a call tree: "schema":"heaptap.tree/1", or comma-separated values.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/json.h"
#include "analyzer/views/calls.h"

/* Writes the nodes, parents before children, each with the number of its parent. `limit`: number of
 * children written for each node (0: all); one node with "more" is the sum of the others. */
HT_MUST_CHECK
struct ht_err *calls_json_write(FILE *out, const struct calls *calls, size_t limit);
HT_MUST_CHECK
struct ht_err *calls_csv_write(FILE *out, const struct calls *calls, size_t limit);

/* A group of frames: {function, file, line, module, offset, name}; line and offset are null if
 * frames of the group may differ in them. */
json_t *calls_json_group(const struct calls *calls, uint32_t group);
/* The sums of a group, as total and own; with their bounds if the capture is a sample. Takes
 * ownership of `object`. */
json_t *calls_json_sum(json_t *object, const struct calls *calls, const struct calls_sum *sum);
/* Writes a text of foreign origin as a field, at most 4 KiB; NULL: an empty field. */
void calls_csv_text(FILE *out, const char *text);
/* A number as a field; empty if it is not known. */
void calls_csv_number(FILE *out, bool is_known, uint64_t number);
/* Writes a group as the fields "function,file,line,module". */
void calls_csv_group(FILE *out, const struct calls *calls, uint32_t group);
/* Writes the bounds of `sum` as two more fields, of its total and own figure; nothing if the
 * capture is no sample. */
void calls_csv_bounds(FILE *out, const struct calls *calls, const struct calls_sum *sum);
/* Writes the names of the fields of calls_csv_bounds; nothing if the capture is no sample. */
void calls_csv_bounds_head(FILE *out, const struct calls *calls);
/* Writes the beginning of the JSON of tree, callers and source: schema, metric, unit, window and
 * total. */
HT_MUST_CHECK
struct ht_err *calls_json_head(
	struct json_writer *json, const char *schema, const struct calls *calls);
