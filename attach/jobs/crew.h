/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that run beside heaptap, one for each finished trace, at most CREW_MAX at once.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define CREW_MAX 8u

/* Zero-initialised is valid. */
struct crew {
	const char *command; /* the first argument of `tell`; borrowed */
	/* Called when crew_is_full or crew_wait finds that a command has ended, with its `status`
	 * of waitpid(2); or NULL. */
	void (*tell)(const char *command, int status);
	pid_t running[CREW_MAX]; /* 0: none */
};

/* Do CREW_MAX commands run? Reaps those that have ended. */
bool crew_is_full(struct crew *crew);

/* As fork(2), for a crew that is not full. If fork fails, prints a warning that names `option`. */
pid_t crew_fork(struct crew *crew, const char *option);

/* Waits for the commands that still run. A signal of inherited_ending_signals, which the caller has
 * blocked, ends the wait, not the commands. */
void crew_wait(struct crew *crew);
