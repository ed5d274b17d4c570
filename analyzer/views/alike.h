/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins rows of a view whose sites look the same in one line of a list (equal callers_key) into one
 * site.
 */
#pragma once

#include "analyzer/views/view.h"

struct alike {
	uint32_t row;	  /* its row with most allocated bytes */
	size_t chains;	  /* number of its rows */
	struct sums sums; /* sums of all its rows */
};

/* Groups `count` rows into sites, sorted by `row`; freed by the caller. Changes the order of `row`.
 * With `apart`, each row is a site of its own. */
HT_MUST_CHECK
struct ht_err *alike_find(const struct view *view, uint32_t *row, size_t count, bool apart,
	struct alike **ret, size_t *ret_count);
/* Sorts by `metric`, then by allocated bytes, most first. */
void alike_sort(struct alike *site, size_t count, enum metric metric);
