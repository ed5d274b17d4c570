/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings about the numbers of a view: loss, truncation, damage. One sentence each.
 */
#pragma once

#include "analyzer/cube/analysis.h"

#define WARNINGS_MAX 32u

struct warnings {
	char *text[WARNINGS_MAX];
	size_t count;
	bool has_ending; /* the first warning says that only a part of the trace was read, and which
			  */
};

HT_MUST_CHECK
struct ht_err *warnings_collect(const struct analysis *analysis, struct warnings *ret);
void warnings_deinit(struct warnings *warnings);
