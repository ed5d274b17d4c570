/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of addresses with a number each; they may overlap.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* [from, to) belongs to element `index` of an array of the caller. */
struct span {
	uint64_t from, to; /* `from` first: array_from */
	uint32_t index;
};

/* Zero-initialised is empty and valid. */
struct spans {
	struct span *span;
	size_t count, capacity;
};

void spans_deinit(struct spans *spans);
/* Adds a span; ignores empty spans, and all after the first 2^22. */
HT_MUST_CHECK
struct ht_err *spans_add(struct spans *spans, uint64_t from, uint64_t to, uint32_t index);
/* Call once, after the last spans_add. */
void spans_sort(struct spans *spans);
/* Iterates over the spans that hold `address`, highest start first. `*at` is 0 for the first call
 * and kept between calls. NULL: no more. Examines only the last 16 spans that start at the address
 * or before it, so it misses a span with 16 later starts. */
const struct span *spans_next(const struct spans *spans, uint64_t address, size_t *at);
/* Whether one span contains all of [from, to). */
bool spans_hold(const struct spans *spans, uint64_t from, uint64_t to);
