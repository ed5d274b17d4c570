/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that never ends around malloc and free whose addresses clang -fno-plt -O2 loads once,
 * before the loop, into registers: they hold what the GOT held then. "restart" leaves the loop and
 * enters it again, so that the registers are loaded anew. "count" answers with the rounds so far.
 * With -r a thread restarts it a thousand times a second.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#define THREADS 2

static atomic_ullong rounds;
static atomic_uint generation;

__attribute__((noinline)) static void loop(unsigned mine)
{
	for (uint64_t i = 0; atomic_load_explicit(&generation, memory_order_relaxed) == mine; i++) {
		void *volatile ptr = malloc(16 + i % 100);
		free(ptr);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	}
}

static void *run(void *arg)
{
	(void)arg;
	for (;;)
		loop(atomic_load(&generation));
	return NULL;
}

static void *restart(void *arg)
{
	for (;; nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL))
		atomic_fetch_add(&generation, 1);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS], restarter;
	if (argc > 1 && !strcmp(argv[1], "-r"))
		pthread_create(&restarter, NULL, restart, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "restart"))
			atomic_fetch_add(&generation, 1);
		speak_add("%llu", atomic_load(&rounds));
		speak_send();
	}
	_exit(0);
}
