/* SPDX-License-Identifier: Apache-2.0
 *
 * Very many threads: busy ones that allocate and compute, parked ones that wait in different
 * calls, and chains of threads, each of which starts the next and ends.
 *
 * usage: crowd [-b BUSY] [-p PARKED] [-c CHAINS] [-j] [-n OPERATIONS] [-w]
 *
 * Every thread checks its own blocks and checksums. A chain grows as fast as the machine allows;
 * its threads are detached, or with -j joined by the thread that they started. "count" answers
 * {"rounds":N,"born":N}. "hold" lets no thread allocate any more (with -w from the start), "on"
 * lets all go on. In between, "go" lets every busy thread make OPERATIONS blocks and free them, and
 * answers with the sums over these threads: {"allocations":N,"bytes":N,"frees":N}.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#define STACK_BYTES 65536
#define THREADS_MAX 1200
#define LIVE	    8

static pthread_t thread[THREADS_MAX];
static size_t thread_count;
static unsigned busy, parked, chains, operations = 1000;
static bool joined;
static pthread_attr_t small_stack, detached;

static atomic_bool stopping;
static atomic_ullong rounds, born;
static atomic_uint chains_left;

static atomic_bool held;
static atomic_uint held_count; /* busy threads and chains that wait because of "hold" */
static atomic_uint phase, phase_left;
static atomic_ullong allocations, bytes, frees;

static int wake_pipe[2];
static sem_t wake;

/* --- what every thread does ------------------------------------------------------------------- */

struct sums {
	uint64_t integer;
	double sse;
	long double x87;
};

__attribute__((noinline)) static struct sums compute(void)
{
	struct sums sums = {.integer = 1, .sse = 1, .x87 = 1};
	for (unsigned i = 1; i < 2000; i++) {
		sums.integer = sums.integer * 6364136223846793005u + i;
		sums.sse = sums.sse * 0.999 + 1.0 / i;
		sums.x87 = sums.x87 * 0.998L + 1.0L / i;
	}
	return sums;
}

static void check_sums(const struct sums *expected)
{
	struct sums again = compute();
	if (again.integer != expected->integer || again.sse != expected->sse ||
		again.x87 != expected->x87)
		speak_fail("checksums differ");
}

/* The first two words of a block are the thread that allocated it, and the block's number. */
static uint64_t *make_block(uint64_t owner, uint64_t number, size_t size)
{
	uint64_t *block = malloc(size);
	if (!block)
		speak_fail("no memory");
	block[0] = owner;
	block[1] = number;
	return block;
}

static void drop_block(uint64_t *block, uint64_t owner, uint64_t number)
{
	if (block[0] != owner || block[1] != number)
		speak_fail("block overwritten");
	free(block);
}

static size_t size_of(uint64_t number)
{
	return 16 + number * 37 % 500;
}

/* --- busy threads ----------------------------------------------------------------------------- */

static void run_phase(uint64_t owner)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < operations; i++) {
		sum += size_of(i);
		drop_block(make_block(owner, i, size_of(i)), owner, i);
	}
	atomic_fetch_add(&allocations, operations);
	atomic_fetch_add(&frees, operations);
	atomic_fetch_add(&bytes, sum);
	atomic_fetch_sub(&phase_left, 1);
}

static void wait_while_held(uint64_t owner)
{
	unsigned done = atomic_load(&phase);
	atomic_fetch_add(&held_count, 1);
	while (atomic_load(&held)) {
		if (owner && atomic_load(&phase) != done) {
			run_phase(owner);
			done++;
		}
		poll(NULL, 0, 1);
	}
	atomic_fetch_sub(&held_count, 1);
}

static void *run_busy(void *arg)
{
	uint64_t owner = (uintptr_t)arg, *live[LIVE] = {0}, number[LIVE] = {0};
	struct sums expected = compute();
	for (uint64_t round = 0; !atomic_load(&stopping); round++) {
		unsigned at = round % LIVE;
		if (atomic_load(&held))
			wait_while_held(owner);
		if (live[at])
			drop_block(live[at], owner, number[at]);
		number[at] = round;
		live[at] = make_block(owner, round, size_of(round));
		check_sums(&expected);
		atomic_fetch_add(&rounds, 1);
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i])
			drop_block(live[i], owner, number[i]);
	return NULL;
}

/* --- parked threads --------------------------------------------------------------------------- */

static void wait_in_some_call(uint64_t kind)
{
	struct pollfd pollfd = {.fd = wake_pipe[0], .events = POLLIN};
	char byte;
	switch (kind % 4) {
	case 0:
		while (sem_wait(&wake))
			if (errno != EINTR)
				speak_fail("sem_wait: %d", errno);
		break;
	case 1:
		if (read(wake_pipe[0], &byte, 1) != 0)
			speak_fail("read: %d", errno);
		break;
	case 2:
		if (poll(&pollfd, 1, -1) != 1)
			speak_fail("poll: %d", errno);
		break;
	default:
		while (!atomic_load(&stopping))
			if (nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL))
				speak_fail("nanosleep: %d", errno);
		break;
	}
}

static void *run_parked(void *arg)
{
	uint64_t owner = (uintptr_t)arg;
	struct sums expected = compute();
	uint64_t *block = make_block(owner, 1, 100);
	wait_in_some_call(owner);
	drop_block(block, owner, 1);
	check_sums(&expected);
	return NULL;
}

/* --- chains ----------------------------------------------------------------------------------- */

static void *run_link(void *arg)
{
	uint64_t owner = atomic_fetch_add(&born, 1);
	pthread_t before = (pthread_t)(uintptr_t)arg, next;
	if (before && pthread_join(before, NULL))
		speak_fail("cannot join");
	if (atomic_load(&held))
		wait_while_held(0);
	drop_block(make_block(owner, 2, size_of(owner)), owner, 2);
	void *self = joined ? (void *)(uintptr_t)pthread_self() : NULL;
	if (atomic_load(&stopping)) {
		if (joined)
			pthread_detach(pthread_self());
		atomic_fetch_sub(&chains_left, 1);
	} else if (pthread_create(&next, joined ? &small_stack : &detached, run_link, self)) {
		speak_fail("cannot create a thread");
	}
	return NULL;
}

/* --- the program ------------------------------------------------------------------------------ */

static void start(void *(*run)(void *), size_t count)
{
	for (size_t i = 0; i < count; i++, thread_count++)
		if (pthread_create(&thread[thread_count], &small_stack, run,
			    (void *)(uintptr_t)(thread_count + 1)))
			speak_fail("cannot create thread %zu", thread_count);
}

static void wait_for(atomic_uint *counter, unsigned value)
{
	while (atomic_load(counter) != value)
		poll(NULL, 0, 1);
}

static void obey(const char *command)
{
	if (!strcmp(command, "count")) {
		speak_add("{\"rounds\":%llu,\"born\":%llu}", atomic_load(&rounds),
			atomic_load(&born));
	} else if (!strcmp(command, "hold")) {
		atomic_store(&held, true);
		wait_for(&held_count, busy + chains);
		speak_add("held");
	} else if (!strcmp(command, "on")) {
		atomic_store(&held, false);
		wait_for(&held_count, 0);
		speak_add("on");
	} else if (!strcmp(command, "go")) {
		atomic_store(&allocations, 0);
		atomic_store(&bytes, 0);
		atomic_store(&frees, 0);
		atomic_store(&phase_left, busy);
		atomic_fetch_add(&phase, 1);
		wait_for(&phase_left, 0);
		speak_add("{\"allocations\":%llu,\"bytes\":%llu,\"frees\":%llu}",
			atomic_load(&allocations), atomic_load(&bytes), atomic_load(&frees));
	} else {
		speak_fail("what is %s?", command);
	}
	speak_send();
}

static void finish(void)
{
	atomic_store(&stopping, true);
	atomic_store(&held, false);
	close(wake_pipe[1]);
	for (unsigned i = 0; i < parked; i++)
		sem_post(&wake);
	for (size_t i = 0; i < thread_count; i++)
		pthread_join(thread[i], NULL);
	wait_for(&chains_left, 0);
}

static unsigned number_of(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	for (int option; (option = getopt(argc, argv, "b:p:c:n:jw")) != -1;) {
		if (option == 'b')
			busy = number_of(optarg);
		else if (option == 'p')
			parked = number_of(optarg);
		else if (option == 'c')
			chains = number_of(optarg);
		else if (option == 'n')
			operations = number_of(optarg);
		else if (option == 'w')
			atomic_store(&held, true);
		else
			joined = true;
	}
	if (busy + parked > THREADS_MAX)
		speak_fail("at most %d threads", THREADS_MAX);
	pthread_attr_init(&small_stack);
	pthread_attr_setstacksize(&small_stack, STACK_BYTES);
	pthread_attr_init(&detached);
	pthread_attr_setstacksize(&detached, STACK_BYTES);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sem_init(&wake, 0, 0);
	if (pipe2(wake_pipe, O_CLOEXEC))
		speak_fail("no pipe");
	atomic_store(&chains_left, chains);
	for (unsigned i = 0; i < chains; i++) {
		pthread_t first;
		if (pthread_create(&first, joined ? &small_stack : &detached, run_link, NULL))
			speak_fail("cannot create a thread");
	}
	start(run_parked, parked);
	start(run_busy, busy);
	if (atomic_load(&held))
		wait_for(&held_count, busy + chains);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");)
		obey(command);
	finish();
	_exit(0);
}
