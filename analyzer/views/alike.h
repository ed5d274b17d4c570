/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a view that read alike in one line (callers.h), as one site.
 */
#pragma once

#include "analyzer/views/view.h"

struct alike {
	uint32_t row; /* of the view: the one with most bytes allocated */
	size_t chains;
	struct sums sums; /* of all of them */
};

/* The sites of `count` rows, in the order of their `row`; freed by the caller. With `apart` each
 * row is a site. */
HT_MUST_CHECK
struct ht_err *alike_find(const struct view *view, const uint32_t *row, size_t count, bool apart,
	struct alike **ret, size_t *ret_count);
/* Puts those with most of `metric` first, then those that allocated most. */
void alike_sort(struct alike *site, size_t count, enum metric metric);
