/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures one part: the thread's CPU time, or under callgrind the number of instructions. Included
 * once, by parts.c.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "format/base.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

#define SAMPLES		41
#define SAMPLES_SHORT	5
#define SAMPLE_NS	2e6
#define SAMPLE_NS_SHORT 2e5
#define COUNTED		10000u

struct part {
	const char *name, *about;
	void (*setup)(void);
	void (*run)(uint64_t times);
	void (*base)(uint64_t times); /* the work of `run` without the part, to be subtracted; NULL:
					 only the loop */
	uint64_t times_max;	      /* the most operations in one sample; 0: no limit */
	void (*reset)(void);	      /* called before each sample; or NULL */
	bool by_kernel; /* the work is the kernel's, so instruction counts are meaningless */
};

#define KEEP(value) __asm__ volatile("" : : "g"(value) : "memory")

static void count_only(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(i);
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double timed(const struct part *part, void (*run)(uint64_t), uint64_t times)
{
	if (part->reset)
		part->reset();
	double start = cpu_ns();
	run(times);
	return (cpu_ns() - start) / (double)times;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const struct part *part, unsigned samples, double sample_ns)
{
	double net[SAMPLES];
	void (*base)(uint64_t) = part->base ? part->base : count_only;
	uint64_t times = 1000;
	while (timed(part, part->run, times) * (double)times < sample_ns &&
		(!part->times_max || times * 2 <= part->times_max))
		times *= 2;
	for (unsigned i = 0; i < samples; i++) {
		double spent = timed(part, part->run, times);
		net[i] = spent - timed(part, base, times);
	}
	qsort(net, samples, sizeof(net[0]), ascending);
	printf("%s\t%s\t%.3f\t%.3f\t%.3f\n", part->name, part->about, net[samples / 2], net[0],
		net[samples * 9 / 10]);
	fflush(stdout);
}

static void count_instructions(const struct part *part)
{
	void (*const run[2])(uint64_t) = {part->run, part->base ? part->base : count_only};
	static char name[2][64];
	if (part->by_kernel)
		return;
	for (unsigned i = 0; i < 2; i++) {
		if (part->reset)
			part->reset();
		run[i](part->times_max ? 1 : COUNTED);
		if (part->reset)
			part->reset();
		snprintf(name[i], sizeof(name[i]), "%s %s", i ? "base" : "part", part->name);
		CALLGRIND_START_INSTRUMENTATION;
		CALLGRIND_ZERO_STATS;
		run[i](COUNTED);
		CALLGRIND_DUMP_STATS_AT(name[i]);
		CALLGRIND_STOP_INSTRUMENTATION;
	}
	printf("%s\t%s\t%u\n", part->name, part->about, COUNTED);
	fflush(stdout);
}
