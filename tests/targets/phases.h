/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs whose threads work in phases: between two phases no thread is in an allocator, so
 * that the main thread can read their counts.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "tests/targets/speak.h"

static unsigned phase; /* 0: before the first `go` */
static pthread_barrier_t phases_start, phases_finish;

/* Call it before the worker threads are created. */
static inline void phases_init(unsigned threads)
{
	pthread_barrier_init(&phases_start, NULL, threads + 1);
	pthread_barrier_init(&phases_finish, NULL, threads + 1);
}

/* phases_begin and phases_end wait for all worker threads and the main thread. */
static inline void phases_begin(void)
{
	pthread_barrier_wait(&phases_start);
}

static inline void phases_end(void)
{
	pthread_barrier_wait(&phases_finish);
}

/* Calls `run` and `say` for each `go`: they run a phase and print its counts. Returns at `stop`. */
static inline void phases_obey(void (*run)(void), void (*say)(void))
{
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (strcmp(command, "go"))
			speak_fail("no command %s", command);
		run();
		say();
	}
}
