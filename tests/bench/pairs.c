/* SPDX-License-Identifier: Apache-2.0
 *
 * What a malloc+free pair costs its thread. Calls `depth` functions deep; the last `fresh` of them
 * are left and entered again for each pair, so that that many frames are new. Measures when told
 * to, so that the same process can be measured before and while it is tapped.
 *
 * usage: pairs DEPTH FRESH THREADS      commands on stdin: measure, quit
 *
 * measure prints thread CPU nanoseconds per pair (median over the threads of the least of nine
 * samples) and wall nanoseconds per pair over all threads.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES	    9
#define PAIRS	    100000
#define THREADS_MAX 64
#define DEPTH_MAX   400

static unsigned depth, fresh, threads;
static double cpu_ns[THREADS_MAX];
static pthread_barrier_t begin, end;

static double now_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void pair(unsigned size)
{
	void *volatile p = malloc(16 + size % 512);
	free(p);
}

/* The fresh frames: entered anew for each pair. */
static __attribute__((noinline)) void enter(unsigned left, unsigned size)
{
	if (left == 0)
		pair(size);
	else
		enter(left - 1, size);
	__asm__ volatile("" ::: "memory");
}

static void sample(void)
{
	for (unsigned i = 0; i < PAIRS; i++)
		enter(fresh, i * 37);
}

/* The frames that stay. */
static __attribute__((noinline)) double descend(unsigned left)
{
	double least = 1e18;
	if (left > 0) {
		least = descend(left - 1);
	} else {
		for (int s = 0; s < SAMPLES; s++) {
			double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
			sample();
			double spent = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
			least = spent < least ? spent : least;
		}
	}
	__asm__ volatile("" ::: "memory");
	return least;
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		cpu_ns[(uintptr_t)arg] = descend(depth - fresh);
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
	double start = now_ns(CLOCK_MONOTONIC);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	double wall = (now_ns(CLOCK_MONOTONIC) - start) / ((double)SAMPLES * PAIRS * threads);
	qsort(cpu_ns, threads, sizeof(cpu_ns[0]), ascending);
	printf("%.2f %.2f\n", cpu_ns[threads / 2], wall);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64];
	if (argc != 4)
		return 2;
	depth = (unsigned)strtoul(argv[1], NULL, 10);
	fresh = (unsigned)strtoul(argv[2], NULL, 10);
	threads = (unsigned)strtoul(argv[3], NULL, 10);
	if (depth > DEPTH_MAX || fresh > depth || threads < 1 || threads > THREADS_MAX)
		return 2;
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (uintptr_t i = 0; i < threads; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, (void *)i);
	}
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0)
		measure();
	return 0;
}
