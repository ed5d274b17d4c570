/* SPDX-License-Identifier: Apache-2.0
 *
 * From TSC stamps to nanoseconds since the window's start, by interpolation between clock pairs.
 */
#pragma once

#include "format/base.h"

/* Zero-initialised: no pair yet, every time is 0. */
struct timebase {
	uint64_t start_ns;     /* CLOCK_MONOTONIC at the window's start */
	uint64_t tsc, mono_ns; /* the pair that times are counted from */
	double ns_per_cycle;   /* 0: not known yet */
	uint64_t ns_per_2_32;  /* of so many cycles; 0: the slope is too steep for that */
};

void timebase_start(struct timebase *base, uint64_t tsc, uint64_t mono_ns);
/* Adds a pair; one that adds nothing to what is known is ignored. */
void timebase_add(struct timebase *base, uint64_t tsc, uint64_t mono_ns);
/* Nanoseconds since the start; 0 for anything before it. */
uint64_t timebase_ns(const struct timebase *base, uint64_t tsc);
/* A CLOCK_MONOTONIC time as nanoseconds since the start. */
uint64_t timebase_since_start(const struct timebase *base, uint64_t mono_ns);
