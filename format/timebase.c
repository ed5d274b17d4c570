/* SPDX-License-Identifier: Apache-2.0 */
#include "format/timebase.h"

/* Shorter steps give a slope dominated by the time it takes to read two clocks; such a pair is used
 * only if no slope is known yet. */
#define STEP_MIN_NS 1000000u
/* Below these limits, a near stamp's product, and the sum of it and pair_ns, fit 63 bits. */
#define NEAR_SLOPE ((uint64_t)1 << 33)
#define NEAR_NS	   ((uint64_t)1 << 61)
#define NS_MAX	   4000000000000000000 /* later times are clamped to this */

void timebase_start(struct timebase *base, uint64_t tsc, uint64_t mono_ns)
{
	*base = (struct timebase){.start_ns = mono_ns, .tsc = tsc, .mono_ns = mono_ns};
}

void timebase_add(struct timebase *base, uint64_t tsc, uint64_t mono_ns)
{
	if (tsc <= base->tsc || mono_ns <= base->mono_ns)
		return;
	if (base->ns_per_cycle > 0 && mono_ns - base->mono_ns < STEP_MIN_NS)
		return;
	base->ns_per_cycle = (double)(mono_ns - base->mono_ns) / (double)(tsc - base->tsc);
	base->tsc = tsc;
	base->mono_ns = mono_ns;
	base->pair_ns = timebase_since_start(base, mono_ns);
	const double scaled = base->ns_per_cycle * 4294967296.0;
	base->ns_per_2_32 = scaled < 4e18 ? (uint64_t)scaled : 0;
	const bool is_near = base->ns_per_2_32 < NEAR_SLOPE && base->pair_ns < NEAR_NS;
	base->near_cycles = is_near ? 2 * TIMEBASE_NEAR_CYCLES : 0;
}

uint64_t timebase_since_start(const struct timebase *base, uint64_t mono_ns)
{
	return mono_ns > base->start_ns ? mono_ns - base->start_ns : 0;
}

uint64_t timebase_far_ns(const struct timebase *base, uint64_t tsc)
{
	const __int128 delta = (__int128)(int64_t)(tsc - base->tsc) * (__int128)base->ns_per_2_32;
	const __int128 since = (__int128)base->pair_ns + (delta >> 32);
	if (since <= 0)
		return 0;
	return since < (__int128)NS_MAX ? (uint64_t)since : (uint64_t)NS_MAX;
}
