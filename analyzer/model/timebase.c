/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/timebase.h"

/* Shorter steps give a slope dominated by the time it takes to read two clocks; they are
 * used only while there is no other. */
#define STEP_MIN_NS 1000000u
#define NS_MAX	    4e18 /* keeps conversions from double within int64_t */

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
}

uint64_t timebase_since_start(const struct timebase *base, uint64_t mono_ns)
{
	return mono_ns > base->start_ns ? mono_ns - base->start_ns : 0;
}

uint64_t timebase_ns(const struct timebase *base, uint64_t tsc)
{
	double delta = (double)(int64_t)(tsc - base->tsc) * base->ns_per_cycle;
	double since = (double)timebase_since_start(base, base->mono_ns) + delta;
	if (!(since > 0))
		return 0;
	return since < NS_MAX ? (uint64_t)since : (uint64_t)NS_MAX;
}
