/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that compute the same checksums over and over, in integers, SSE and x87, allocate in
 * between, and stop with "WRONG" at the first different result.
 *
 * usage: busy [-t THREADS] [-s]
 *
 * -s: a thread queues real-time signals to the workers, about 5,000 a second; at the end as many
 * must have been handled as were queued. "count" answers {"rounds":N,"sent":N,"handled":N}.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#define THREADS_MAX 64
#define LIVE	    64

struct sums {
	uint64_t integer;
	double sse;
	long double x87;
};

static pthread_t worker[THREADS_MAX];
static unsigned threads = 8;
static atomic_bool stopping;
static atomic_ullong rounds, sent, handled;

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

__attribute__((noinline)) static struct sums compute(void)
{
	struct sums sums = {.integer = 1, .sse = 1, .x87 = 1};
	for (unsigned i = 1; i < 20000; i++) {
		sums.integer = sums.integer * 6364136223846793005u + i;
		sums.sse = sums.sse * 0.999 + 1.0 / i;
		sums.x87 = sums.x87 * 0.998L + 1.0L / i;
	}
	return sums;
}

static void churn(unsigned char *live[LIVE], uint64_t round)
{
	for (unsigned i = 0; i < 12; i++) {
		unsigned at = (unsigned)(round * 7 + i) % LIVE;
		size_t size = 16 + (round * 31 + i * 97) % 3000;
		if (live[at] && live[at][0] != at)
			speak_fail("block overwritten");
		if (i % 3 == 0) {
			live[at] = realloc(live[at], size);
		} else {
			free(live[at]);
			live[at] = i % 3 == 1 ? malloc(size) : calloc(size, 1);
		}
		if (!live[at])
			speak_fail("no memory");
		live[at][0] = (unsigned char)at;
	}
}

static void *run(void *arg)
{
	(void)arg;
	unsigned char *live[LIVE] = {0};
	struct sums first = compute();
	for (uint64_t round = 0; !atomic_load(&stopping); round++) {
		struct sums again = compute();
		if (again.integer != first.integer || again.sse != first.sse ||
			again.x87 != first.x87)
			speak_fail("checksums differ");
		churn(live, round);
		atomic_fetch_add(&rounds, 1);
	}
	for (unsigned i = 0; i < LIVE; i++)
		free(live[i]);
	return NULL;
}

static void *storm(void *arg)
{
	(void)arg;
	for (unsigned turn = 0; !atomic_load(&stopping); turn++) {
		union sigval value = {.sival_int = 1};
		if (!pthread_sigqueue(worker[turn % threads], SIGRTMIN, value))
			atomic_fetch_add(&sent, 1);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	bool storming = false;
	for (int option; (option = getopt(argc, argv, "t:s")) != -1;) {
		if (option == 't')
			threads = (unsigned)strtoul(optarg, NULL, 10);
		else
			storming = true;
	}
	if (threads < 1 || threads > THREADS_MAX)
		speak_fail("1 to %d threads", THREADS_MAX);
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGRTMIN, &action, NULL);
	pthread_t storm_thread;
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&worker[i], NULL, run, NULL);
	if (storming)
		pthread_create(&storm_thread, NULL, storm, NULL);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		speak_add("{\"rounds\":%llu,\"sent\":%llu,\"handled\":%llu}", atomic_load(&rounds),
			atomic_load(&sent), atomic_load(&handled));
		speak_send();
	}
	atomic_store(&stopping, true);
	if (storming)
		pthread_join(storm_thread, NULL);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(worker[i], NULL);
	if (atomic_load(&sent) != atomic_load(&handled))
		speak_fail("%llu signals sent, %llu handled", atomic_load(&sent),
			atomic_load(&handled));
	_exit(0);
}
