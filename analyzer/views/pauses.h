/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses of a capture, within a part of the trace: what a reader of series must know, since nothing
 * that was allocated then is in them.
 */
#pragma once

#include "analyzer/views/view.h"

struct pauses {
	size_t count;
	uint64_t sum_ns;
	uint64_t first_begin_ns, first_end_ns; /* since the start of the trace */
};

/* Those that touch [from_ns, to_ns), cut to it. */
struct pauses pauses_within(const struct model *model, uint64_t from_ns, uint64_t to_ns);

/*
 * Takes the time of pauses out of the first `buckets` of a series of the view's window, so that it
 * is that of a capture which went on at once: buckets that lie in a pause for half of them or more
 * go, and what was freed in them was freed in the next one, or in the last. Ages are left as they
 * are: they are at least what they would be. Returns how many buckets there are then.
 */
uint32_t pauses_cut(const struct view *view, uint32_t buckets, struct window_series *series);
