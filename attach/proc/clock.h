/* SPDX-License-Identifier: Apache-2.0
 *
 * Time on the attach side: CLOCK_MONOTONIC in nanoseconds.
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

/* Pause between two looks at a thread that we have waited for since `since_mono_ns`: a sixteenth of
 * the time waited so far, within the limits above. Looks without a pause would keep a thread on the
 * same core from running; the maximum bounds how long a stopped thread is held after it is
 * ready. */
static inline uint64_t clock_pause_ns(uint64_t since_mono_ns)
{
	uint64_t pause_ns = (clock_mono_ns() - since_mono_ns) / CLOCK_PAUSE_PART;
	return pause_ns < CLOCK_PAUSE_MIN_NS   ? CLOCK_PAUSE_MIN_NS
	       : pause_ns > CLOCK_PAUSE_MAX_NS ? CLOCK_PAUSE_MAX_NS
					       : pause_ns;
}

/* Sleeps for `ns` at least, or until a signal arrives. */
static inline void clock_sleep_ns(uint64_t ns)
{
	struct timespec span = {(time_t)(ns / CLOCK_NS_PER_S), (long)(ns % CLOCK_NS_PER_S)};
	nanosleep(&span, NULL);
}
