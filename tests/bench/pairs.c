/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what a malloc+free pair costs its thread, DEPTH calls deep. The last FRESH functions
 * return and are called again for each pair. With PLACES 4 each is called from one of four call
 * sites, so that each pair has another stack than the pair before. Measures on command, so that
 * the same process can be measured before and while it is tapped.
 *
 * usage: pairs DEPTH FRESH THREADS [PLACES]      PLACES: 1 (or none) or 4
 *        commands on stdin: measure, quit
 *
 * measure prints thread CPU nanoseconds per pair (median over the threads of the least of nine
 * samples) and wall nanoseconds per pair over all threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/frames.h"

#define SAMPLES	    9
#define PAIRS	    100000
#define THREADS_MAX 64
#define DEPTH_MAX   3000

static unsigned depth, fresh, threads, places = 1;
static uint64_t ways[FRAMES_WAYS];
static double cpu_ns[THREADS_MAX];
static pthread_barrier_t begin, end;

static void pair(uint64_t size)
{
	void *volatile p = malloc(16 + size % 512);
	free(p);
}

static void sample(void)
{
	unsigned way = 0;
	for (unsigned i = 0; i < PAIRS; i++) {
		way = frames_next(way, i);
		frames_above(fresh, ways[way], pair, i * 37);
	}
}

static void samples(void *arg)
{
	double least = 1e18;
	for (int s = 0; s < SAMPLES; s++) {
		double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
		sample();
		double spent = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
		least = spent < least ? spent : least;
	}
	*(double *)arg = least;
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		frames_below(depth - fresh, samples, arg);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(void)
{
	double start = now_ns(CLOCK_MONOTONIC), sorted[THREADS_MAX];
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	double wall = (now_ns(CLOCK_MONOTONIC) - start) / ((double)SAMPLES * PAIRS * threads);
	memcpy(sorted, cpu_ns, sizeof(sorted));
	qsort(sorted, threads, sizeof(sorted[0]), ascending);
	printf("%.2f %.2f\n", sorted[threads / 2], wall);
	fflush(stdout);
}

static unsigned number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	char line[64];
	if (argc != 4 && argc != 5)
		return 2;
	depth = number(argv[1]);
	fresh = number(argv[2]);
	threads = number(argv[3]);
	if (argc == 5)
		places = number(argv[4]);
	if (depth > DEPTH_MAX || fresh > depth || threads < 1 || threads > THREADS_MAX ||
		(places != 1 && places != 4))
		return 2;
	for (unsigned i = 0; i < FRAMES_WAYS; i++)
		ways[i] = places == 1 ? 0 : frames_way(i);
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, &cpu_ns[i]);
	}
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0)
		measure();
	return 0;
}
