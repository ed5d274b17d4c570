/* SPDX-License-Identifier: Apache-2.0
 *
 * Time as the attach side uses it: CLOCK_MONOTONIC in nanoseconds.
 */
#pragma once

#include <time.h>

#include "format/base.h"

#define CLOCK_NS_PER_S	1000000000ull
#define CLOCK_NS_PER_MS 1000000ull

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now;
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

#define CLOCK_PAUSE_MIN_NS 10000u
#define CLOCK_PAUSE_MAX_NS 200000u
#define CLOCK_PAUSE_PART   16u

/* How long to sleep between two looks at a thread that is waited for since then: a sixteenth of
 * what it takes anyway. On one core with us it would not get to run between looks that come one
 * upon the other, and where it takes long it is held no longer for it than the maximum. */
static inline uint64_t clock_pause_ns(uint64_t since_mono_ns)
{
	uint64_t pause_ns = (clock_mono_ns() - since_mono_ns) / CLOCK_PAUSE_PART;
	return pause_ns < CLOCK_PAUSE_MIN_NS   ? CLOCK_PAUSE_MIN_NS
	       : pause_ns > CLOCK_PAUSE_MAX_NS ? CLOCK_PAUSE_MAX_NS
					       : pause_ns;
}

/* Sleeps at least that long, or less when a signal arrives. */
static inline void clock_sleep_ns(uint64_t ns)
{
	struct timespec span = {(time_t)(ns / CLOCK_NS_PER_S), (long)(ns % CLOCK_NS_PER_S)};
	nanosleep(&span, NULL);
}
