/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch mode: prints tables one after the other, as text or as lines of JSON.
 */
#pragma once

#include "analyzer/top/heading.h"

/* Prints a table of at most `limit` rows; 0: all. */
void batch_print(const struct text *text, const struct heading *heading, const struct snapshot *now,
	const struct listing *listing, size_t limit);
/* Prints the table as one JSON object ("heaptap.top/1") in a line. */
HT_MUST_CHECK
struct ht_err *batch_print_json(FILE *out, const struct heading *heading,
	const struct snapshot *now, const struct listing *listing, size_t limit);
