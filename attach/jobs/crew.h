/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that run beside heaptap, one for each finished trace: never more than a few at once.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define CREW_MAX 8u

/* Zero-initialised is valid. */
struct crew {
	const char *command; /* what `tell` gets; borrowed */
	/* Called when a command ends, with its `status` of waitpid(2); or NULL. */
	void (*tell)(const char *command, int status);
	pid_t running[CREW_MAX]; /* 0: none */
};

/* Are CREW_MAX running? Collects those that have ended. */
bool crew_is_full(struct crew *crew);

/* As fork(2), for a crew that is not full. After an error of fork there is a warning, in which
 * `option` stands. */
pid_t crew_fork(struct crew *crew, const char *option);

/* Waits for those that still run. A signal that ends captures ends the wait, not the commands. */
void crew_wait(struct crew *crew);
