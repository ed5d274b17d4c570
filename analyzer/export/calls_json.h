/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree for programs: "schema":"heaptap.tree/1", or comma-separated values.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/json.h"
#include "analyzer/views/calls.h"

/* Writes the nodes, each before what it calls, with the number of its parent. `limit`: children of
 * each node that are written (0: all); the others are summed up in one node with "more". */
HT_MUST_CHECK
struct ht_err *calls_json_write(FILE *out, const struct calls *calls, size_t limit);
HT_MUST_CHECK
struct ht_err *calls_csv_write(FILE *out, const struct calls *calls, size_t limit);

/* A group of frames: {function, file, line, module, offset, name}; line and offset where they are
 * the same for all its frames. */
json_t *calls_json_group(const struct calls *calls, uint32_t group);
/* A text of foreign origin as a field, as far as a page of memory holds it; NULL: an empty one. */
void calls_csv_text(FILE *out, const char *text);
/* A number as a field; empty if it is not known. */
void calls_csv_number(FILE *out, bool is_known, uint64_t number);
/* The same as fields "function,file,line,module". */
void calls_csv_group(FILE *out, const struct calls *calls, uint32_t group);
/* Writes what the JSON of tree, callers and source begin with: schema, metric, window. */
HT_MUST_CHECK
struct ht_err *calls_json_head(
	struct json_writer *json, const char *schema, const struct calls *calls);
