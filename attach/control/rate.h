/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes how fast two counters grow, over the last eight seconds, or since the first look if that
 * is less.
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
	size_t count; /* looks kept so far; the last RATE_LOOKS of them are in the ring */
};

/* Is it time to keep another look? One a second is kept. */
bool rate_is_due(const struct rate *rate, uint64_t mono_ns);
void rate_note(struct rate *rate, const struct rate_look *look);
/* The growth from the oldest look in the ring to `now`; 0 without a look. */
uint64_t rate_events_per_s(const struct rate *rate, const struct rate_look *now);
uint64_t rate_bytes_per_min(const struct rate *rate, const struct rate_look *now);
