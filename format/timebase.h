/* SPDX-License-Identifier: Apache-2.0
 *
 * From TSC stamps to nanoseconds since the window's start, by interpolation between clock pairs.
 */
#pragma once

#include "format/base.h"

/* Zero-initialised: no pair yet, every time is 0. */
struct timebase {
	uint64_t start_ns;     /* CLOCK_MONOTONIC at the window's start */
	uint64_t tsc, mono_ns; /* the reference pair */
	uint64_t pair_ns;      /* mono_ns since the start */
	double ns_per_cycle;   /* 0: not known yet */
	uint64_t ns_per_2_32;  /* ns of 2^32 cycles; 0: not known yet, or too many for 64 bits */
	uint64_t near_cycles;  /* 2 * TIMEBASE_NEAR_CYCLES; 0: no stamp is near */
};

void timebase_start(struct timebase *base, uint64_t tsc, uint64_t mono_ns);
/* Adds a clock pair; ignores a pair that is not later than the last or too near to it. */
void timebase_add(struct timebase *base, uint64_t tsc, uint64_t mono_ns);
/* With the rates of real clocks, the conversion of a stamp this near to the reference pair needs no
 * 128-bit product. */
#define TIMEBASE_NEAR_CYCLES (1u << 30)

/* As timebase_ns, for any stamp. */
uint64_t timebase_far_ns(const struct timebase *base, uint64_t tsc);

/* Nanoseconds since the start; 0 for anything before it. */
static inline uint64_t timebase_ns(const struct timebase *base, uint64_t tsc)
{
	const int64_t delta = (int64_t)(tsc - base->tsc);
	if (ht_unlikely((uint64_t)delta + TIMEBASE_NEAR_CYCLES >= base->near_cycles))
		return timebase_far_ns(base, tsc);
	const int64_t since = (int64_t)base->pair_ns + ((delta * (int64_t)base->ns_per_2_32) >> 32);
	return since > 0 ? (uint64_t)since : 0;
}
/* A CLOCK_MONOTONIC time as nanoseconds since the start. */
uint64_t timebase_since_start(const struct timebase *base, uint64_t mono_ns);
