/* SPDX-License-Identifier: Apache-2.0
 *
 * Four threads allocate and free on command, and do nothing else. Commands, each for blocks FIRST
 * to LAST - 1 of a table, of which each thread does a fourth:
 *
 *      alloc FIRST LAST SIZE, realloc FIRST LAST SIZE, free FIRST LAST
 *
 * burn FIRST LAST: each thread uses LAST ms of CPU time, and allocates nothing.
 *
 * A block's bytes say which block it is; a thread that finds others fails.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#define THREADS 4
#define BLOCKS	20000

struct block {
	unsigned char *at;
	size_t size;
};

static struct block block[BLOCKS];
static pthread_barrier_t begin, end;
static struct {
	char what;
	unsigned first, last;
	size_t size;
} job;

static void check(unsigned i)
{
	if (block[i].at[0] != (unsigned char)i ||
		block[i].at[block[i].size - 1] != (unsigned char)i)
		speak_fail("block %u was written by another", i);
}

static void fill(unsigned i, void *at)
{
	if (!at)
		speak_fail("no memory");
	block[i] = (struct block){at, job.size};
	block[i].at[0] = block[i].at[job.size - 1] = (unsigned char)i;
}

static void work_on(unsigned i)
{
	if (job.what != 'a')
		check(i);
	if (job.what == 'f')
		free(block[i].at);
	else if (job.what == 'r')
		fill(i, realloc(block[i].at, job.size));
	else
		fill(i, malloc(job.size));
}

static void burn(unsigned ms)
{
	struct timespec from, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}

static void *work(void *argument)
{
	unsigned self = (unsigned)(size_t)argument;
	for (;;) {
		pthread_barrier_wait(&begin);
		if (job.what == 'b')
			burn(job.last);
		for (unsigned i = job.first; i < job.last && job.what != 'b'; i++)
			if (i % THREADS == self)
				work_on(i);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(void)
{
	pthread_barrier_init(&begin, NULL, THREADS + 1);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, work, (void *)i))
			speak_fail("no thread");
	}
	/* One round of each command, so that GOT slots are bound and each thread has its arena. */
	job.what = 'a', job.last = 4 * THREADS, job.size = 100;
	for (const char *at = "arf"; *at; at++) {
		job.what = *at;
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
	}
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		char word[16] = "";
		sscanf(command, "%15s %u %u %zu", word, &job.first, &job.last, &job.size);
		job.what = word[0];
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		speak_add("done");
		speak_send();
	}
	_exit(0);
}
