/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables one after the other, as text or as lines of JSON.
 */
#pragma once

#include "analyzer/top/heading.h"

/* At most `limit` rows; 0: all. */
void batch_print(const struct text *text, const struct heading *heading, const struct snapshot *now,
	const struct listing *listing, size_t limit);
/* One object ("heaptap.top/1") in a line. */
HT_MUST_CHECK
struct ht_err *batch_print_json(FILE *out, const struct heading *heading,
	const struct snapshot *now, const struct listing *listing, size_t limit);
