/* SPDX-License-Identifier: Apache-2.0
 *
 * The moments of a capture: CLOCK_MONOTONIC in nanoseconds, and the time stamp counter that events
 * carry. 0: not yet.
 */
#pragma once

#include "attach/proc/clock.h"
#include "format/arch.h"

struct times {
	uint64_t start_ns, start_tsc;
	uint64_t first_tap_ns;
	uint64_t end_ns, end_tsc; /* when the last slot was restored */
};

static inline struct times times_begin(void)
{
	return (struct times){.start_ns = clock_mono_ns(), .start_tsc = arch_tsc()};
}

static inline void times_end(struct times *times)
{
	times->end_ns = clock_mono_ns();
	times->end_tsc = arch_tsc();
}

/* Cycles of the time stamp counter in `ns`, at the counter's rate since the start. */
static inline uint64_t times_cycles(const struct times *times, uint64_t ns)
{
	double spent_ns = (double)(clock_mono_ns() - times->start_ns);
	double spent_cycles = (double)(arch_tsc() - times->start_tsc);
	return (uint64_t)((double)ns * spent_cycles / spent_ns);
}
