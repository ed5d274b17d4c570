/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reader of the numbers must know about them: loss, truncation, damage. One sentence each.
 */
#pragma once

#include "analyzer/cube/analysis.h"

#define WARNINGS_MAX 32u

struct warnings {
	char *text[WARNINGS_MAX];
	size_t count;
	bool has_ending; /* the first one says that a part of the trace was read, and which */
};

HT_MUST_CHECK
struct ht_err *warnings_collect(const struct analysis *analysis, struct warnings *ret);
void warnings_deinit(struct warnings *warnings);
