/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast two counters grow: over the last seconds, or since the start where that is less.
 */
#pragma once

#include "format/base.h"

#define RATE_LOOKS 8u

struct rate_look {
	uint64_t mono_ns, events, bytes;
};

/* Zero-initialised is empty and valid. */
struct rate {
	struct rate_look look[RATE_LOOKS]; /* a ring */
	size_t count;			   /* looks that were ever kept */
};

/* When is the next look to be kept? One a second is. */
bool rate_is_due(const struct rate *rate, uint64_t mono_ns);
void rate_note(struct rate *rate, const struct rate_look *look);
/* From the oldest look that is kept to `now`. */
uint64_t rate_events_per_s(const struct rate *rate, const struct rate_look *now);
uint64_t rate_bytes_per_min(const struct rate *rate, const struct rate_look *now);
