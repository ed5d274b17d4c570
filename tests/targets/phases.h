/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs whose threads work in phases: between two phases none of them is in an allocator, so
 * their books can be read.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "tests/targets/speak.h"

static unsigned phase; /* 0: before the first `go` */
static pthread_barrier_t phases_start, phases_finish;

/* Before the threads are made that work in them. */
static inline void phases_init(unsigned threads)
{
	pthread_barrier_init(&phases_start, NULL, threads + 1);
	pthread_barrier_init(&phases_finish, NULL, threads + 1);
}

/* These two wait for all its threads, and for the main one. */
static inline void phases_begin(void)
{
	pthread_barrier_wait(&phases_start);
}

static inline void phases_end(void)
{
	pthread_barrier_wait(&phases_finish);
}

/* Runs a phase, and says its books, for each `go`; until `stop`. */
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
