/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the lines of a function with their source: "schema":"heaptap.source/1", or comma-separated
 * values.
 */
#pragma once

#include <stdio.h>

#include "analyzer/symbols/source.h"
#include "analyzer/views/function.h"

/* The member "text" of a line is null if its file has no such line, or if the file cannot be shown:
 * "problem" of the file says why. */
HT_MUST_CHECK
struct ht_err *source_json_write(FILE *out, const struct calls *calls,
	const struct function_matches *matches, const struct function *callers,
	const struct source_places *places);
HT_MUST_CHECK
struct ht_err *source_csv_write(FILE *out, const struct calls *calls,
	const struct function *callers, const struct source_places *places);
