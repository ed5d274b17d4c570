/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses between looks at a target.
 */
#pragma once

#include "format/clock.h"

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
