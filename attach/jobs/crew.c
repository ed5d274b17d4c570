/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/crew.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/cli/print.h"
#include "attach/proc/fd.h"
#include "format/helper.h"

#define LOOK_MS 50

/* Reaps the commands that have ended; returns how many still run. */
static unsigned collect(struct crew *crew)
{
	unsigned running = 0;
	for (size_t i = 0; i < CREW_MAX; i++) {
		int status;
		if (!crew->running[i])
			continue;
		if (!helper_has_ended(crew->running[i], &status)) {
			running++;
			continue;
		}
		if (crew->tell && status >= 0)
			crew->tell(crew->command, status);
		crew->running[i] = 0;
	}
	return running;
}

bool crew_is_full(struct crew *crew)
{
	return collect(crew) == CREW_MAX;
}

pid_t crew_fork(struct crew *crew, const char *option)
{
	pid_t *place = crew->running;
	while (*place)
		place++;
	const pid_t pid = fork();
	if (pid < 0)
		print_text(stderr, "WARNING: %s: cannot fork: %s\n", option, strerror(errno));
	*place = pid > 0 ? pid : 0;
	return pid;
}

void crew_wait(struct crew *crew)
{
	FD_GUARD int signals = inherited_open_signals();
	struct pollfd wait = {.fd = signals, .events = POLLIN};
	while (collect(crew) > 0 && poll(&wait, 1, LOOK_MS) <= 0)
		;
}
