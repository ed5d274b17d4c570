/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking system calls, one per case. Each ends by timeout or by an event from the helper. main.c
 * makes one of them and prints its result.
 */
#pragma once

#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

struct waits_case {
	const char *name;
	/* Makes what the call needs, before the helper is forked. May be NULL. */
	void (*prepare)(void);
	/* Returns as the call does, with errno. */
	long (*wait)(void);
	/* Ends the wait; in the helper, a child process. NULL: the wait ends by its timeout. */
	void (*release)(void);
	/* In the helper, before the call is made: takes the lock that is waited for. May be NULL.
	 */
	void (*hold)(void);
	/* Removes what would outlive the processes; in the helper. May be NULL. */
	void (*clean)(void);
};

extern const struct waits_case waits_clock[], waits_file[], waits_socket[], waits_ipc[];

extern unsigned waits_ms; /* how long the timed ones wait */
extern pid_t waits_target, waits_helper;
extern int waits_fd[4]; /* descriptors of the case */

/* waits_ms as a relative time, and as a time of `clock` from now. */
struct timespec waits_time(void);
struct timespec waits_deadline(clockid_t clock);

/* Fails the target unless `done`. */
void waits_check(int done, const char *what);
/* Turns an error number into a system call's result: -1 and errno. */
long waits_result(int error);
void waits_make_pipe(void); /* waits_fd[0], waits_fd[1] */
/* Writes to a descriptor until it would block. */
void waits_fill(int fd);
