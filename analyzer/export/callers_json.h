/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a function with its callers, callees and lines as JSON ("schema":"heaptap.callers/1") or
 * as comma-separated values.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/json.h"
#include "analyzer/views/function.h"

HT_MUST_CHECK
struct ht_err *callers_json_write(FILE *out, const struct calls *calls,
	const struct function_matches *matches, const struct function *callers);
void callers_csv_write(FILE *out, const struct calls *calls, const struct function_matches *matches,
	const struct function *callers);
/* If a name matches several functions: writes the head and "matches", the list of these
 * functions. */
HT_MUST_CHECK
struct ht_err *callers_json_write_matches(FILE *out, const char *schema, const struct calls *calls,
	const struct function_matches *matches);
/* Writes the member `name`: the list of the functions in `matches`. */
HT_MUST_CHECK
struct ht_err *callers_json_put_matches(struct json_writer *json, const char *name,
	const struct calls *calls, const struct function_matches *matches);
