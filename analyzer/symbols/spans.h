/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of addresses with a number each; they may overlap.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* [from, to) belongs to what `index` counts. */
struct span {
	uint64_t from, to;
	uint32_t index;
};

/* Zero-initialised is empty and valid. */
struct spans {
	struct span *span;
	size_t count, capacity;
};

void spans_deinit(struct spans *spans);
/* Empty ones, and those beyond some millions, are left out. */
HT_MUST_CHECK
struct ht_err *spans_add(struct spans *spans, uint64_t from, uint64_t to, uint32_t index);
/* To be called once, after the last spans_add. */
void spans_sort(struct spans *spans);
/* Of the spans that hold `address` the one with the highest start, for `*at` 0; then, with `*at` as
 * the call before left it, the next one. NULL: there is no other. */
const struct span *spans_next(const struct spans *spans, uint64_t address, size_t *at);
/* Whether one span holds all of [from, to). */
bool spans_hold(const struct spans *spans, uint64_t from, uint64_t to);
