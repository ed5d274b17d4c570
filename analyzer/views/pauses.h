/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses of a capture within a part of the trace. Series must be read with them: blocks allocated
 * in a pause are missing.
 */
#pragma once

#include "analyzer/views/view.h"

struct pauses {
	size_t count;
	uint64_t sum_ns;
	uint64_t first_begin_ns, first_end_ns; /* since the start of the trace */
};

/* The pauses that overlap [from_ns, to_ns), cut to that range. */
struct pauses pauses_within(const struct model *model, uint64_t from_ns, uint64_t to_ns);

/*
 * Removes the time of pauses from the first `buckets` buckets of a series of the view's window. A
 * bucket is removed if half of it or more lies in a pause; its counts move to the next bucket that
 * stays, or to the last. Ages are not corrected: they may be too high by the time of pauses.
 * Returns the number of buckets that stay.
 */
uint32_t pauses_cut(const struct view *view, uint32_t buckets, struct window_series *series);
