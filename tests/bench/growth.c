/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a large number of one thing: threads, of which a few at a time are awake; stacks
 * from which it allocates; live blocks. Measures on command.
 *
 * usage: growth threads|stacks|blocks COUNT      commands on stdin: measure, quit
 *
 * measure prints CPU nanoseconds per malloc+free pair:
 *      threads  20 frames deep, the last 3 entered again for each pair; each thread makes 400,000 /
 *               COUNT pairs, at least 200; the median over the threads
 *      stacks   two dozen frames deep, each pair from another of COUNT stacks, whose innermost four
 *               or five frames differ
 *      blocks   a random one of COUNT live blocks is freed, and another allocated in its place.
 *               Prints a second figure, nanoseconds per malloc: the first measure allocates all
 *               blocks before, later ones print 0
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/frames.h"

#define AWAKE	    4u
#define PAIRS	    400000u
#define PAIRS_LEAST 200u
#define DEPTH	    20u
#define FRESH	    3u
#define STACK_BYTES 65536u
#define BLOCK_BYTES 24u

static uint64_t count;

/* --- threads -------------------------------------------------------------------------------- */

struct thread {
	sem_t wake;
	double cpu_ns;
};

static struct thread *threads;
static sem_t done;

static void pair(uint64_t size)
{
	void *volatile p = malloc(16 + size % 512);
	free(p);
}

static uint64_t pairs_each(void)
{
	return PAIRS / count > PAIRS_LEAST ? PAIRS / count : PAIRS_LEAST;
}

static void thread_pairs(void *arg)
{
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < pairs_each(); i++)
		frames_above(FRESH, 0, pair, i * 37);
	double spent = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	((struct thread *)arg)->cpu_ns = spent / (double)pairs_each();
}

static void *thread_work(void *arg)
{
	for (;;) {
		sem_wait(&((struct thread *)arg)->wake);
		frames_below(DEPTH - FRESH, thread_pairs, arg);
		sem_post(&done);
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void threads_measure(void)
{
	double *spent = calloc(count, sizeof(*spent));
	for (uint64_t i = 0; i < count; i += AWAKE) {
		uint64_t end = i + AWAKE < count ? i + AWAKE : count;
		for (uint64_t k = i; k < end; k++)
			sem_post(&threads[k].wake);
		for (uint64_t k = i; k < end; k++)
			sem_wait(&done);
	}
	for (uint64_t i = 0; i < count; i++)
		spent[i] = threads[i].cpu_ns;
	qsort(spent, count, sizeof(*spent), ascending);
	printf("%.2f\n", spent[count / 2]);
	free(spent);
}

static void threads_make(void)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	threads = calloc(count, sizeof(*threads));
	sem_init(&done, 0, 0);
	for (uint64_t i = 0; i < count; i++) {
		pthread_t thread;
		sem_init(&threads[i].wake, 0, 0);
		if (pthread_create(&thread, &attributes, thread_work, &threads[i]) != 0)
			exit(1);
	}
}

/* --- stacks --------------------------------------------------------------------------------- */

#define STACK_LEVELS 4u
#define STACK_FANOUT 32u
#define STACK_SPACE  (1u << 20)

#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define PLACES(X)   EIGHT(X, 0) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03)

/* Each level has 32 call sites of the next level, the last 32 calls of malloc. Five bits of
 * `number` for each level choose the site. */
static __attribute__((noinline)) void *stack_branch(unsigned level, uint64_t number)
{
	void *p;
	uint64_t place = (number >> 5 * level) % STACK_FANOUT;
	switch (level == 0 ? place : place + STACK_FANOUT) {
	default:
#define X(n)                                                                                       \
	case n:                                                                                    \
		FRAMES_CALL(n, p = malloc(BLOCK_BYTES))
		PLACES(X)
#undef X
#define X(n)                                                                                       \
	case n + STACK_FANOUT:                                                                     \
		FRAMES_CALL(32 + n, p = stack_branch(level - 1, number))
		PLACES(X)
#undef X
	}
	return p;
}

/* Uses all stacks in a pseudo-random order, by multiples of a prime. If there are fewer than
 * STACK_SPACE, their numbers are spread evenly below STACK_SPACE. */
static void stacks_pass(void *arg)
{
	uint64_t pairs = count < PAIRS ? PAIRS / count * count : count;
	uint64_t apart = count < STACK_SPACE ? STACK_SPACE / count : 1;
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < pairs; i++)
		free(stack_branch(STACK_LEVELS, i * 2654435761u % count * apart));
	*(double *)arg = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)pairs;
}

static void stacks_measure(void)
{
	double spent;
	frames_below(12, stacks_pass, &spent);
	printf("%.2f\n", spent);
}

/* --- blocks --------------------------------------------------------------------------------- */

static void **blocks;

static void blocks_fill(void *arg)
{
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < count; i++)
		blocks[i] = malloc(BLOCK_BYTES);
	*(double *)arg = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)count;
}

static void blocks_replace(void *arg)
{
	static uint64_t state = 88172645463325252ull;
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < PAIRS; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		free(blocks[state % count]);
		blocks[state % count] = malloc(BLOCK_BYTES);
	}
	*(double *)arg = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
}

static void blocks_measure(void)
{
	double fill = 0, replace;
	if (!blocks[0])
		frames_below(DEPTH - 1, blocks_fill, &fill);
	frames_below(DEPTH - 1, blocks_replace, &replace);
	printf("%.2f %.2f\n", replace, fill);
}

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	char line[64];
	void (*measure)(void) = NULL;
	count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (count < 1 || count > 100000000)
		return 2;
	if (strcmp(argv[1], "threads") == 0) {
		threads_make();
		measure = threads_measure;
	} else if (strcmp(argv[1], "stacks") == 0) {
		measure = stacks_measure;
	} else if (strcmp(argv[1], "blocks") == 0) {
		blocks = calloc(count, sizeof(*blocks));
		measure = blocks_measure;
	}
	if (!measure)
		return 2;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
		measure();
		fflush(stdout);
	}
	return 0;
}
