/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/several.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/proc/fd.h"
#include "attach/series/outcome.h"
#include "format/helper.h"

#define LOOK_MS 20

struct captures {
	pid_t pid[OPTIONS_PIDS_MAX]; /* 0: has ended */
	unsigned count;
	int worst;
};

static void signal_all(const struct captures *captures, int signal)
{
	for (unsigned i = 0; i < captures->count; i++)
		if (captures->pid[i] > 0)
			kill(captures->pid[i], signal);
}

/* The kernel sends a terminal's signals to the captures, too. A capture takes a second signal as
 * the wish to end at once. */
static void pass_on(const struct captures *captures, int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_code <= 0)
			signal_all(captures, (int)info.ssi_signo);
}

/* Reaps captures that have ended; returns how many still run. */
static unsigned reap(struct captures *captures)
{
	unsigned left = 0;
	for (unsigned i = 0; i < captures->count; i++) {
		int status;
		if (captures->pid[i] == 0)
			continue;
		if (!helper_has_ended(captures->pid[i], &status)) {
			left++;
			continue;
		}
		captures->pid[i] = 0;
		int its = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_INTERNAL;
		captures->worst = outcome_worse(captures->worst, its);
	}
	return left;
}

static void await_all(struct captures *captures)
{
	FD_GUARD int signals = inherited_open_signals();
	struct pollfd wait = {.fd = signals, .events = POLLIN};
	while (reap(captures)) {
		poll(&wait, 1, LOOK_MS);
		pass_on(captures, signals);
	}
}

bool several_split(struct options *options, int *ret, struct ht_err **ret_err)
{
	struct captures captures = {0};
	*ret_err = NULL;
	if (options->pid_count < 2)
		return false;
	inherited_signals();
	fflush(stdout);
	for (unsigned i = 0; i < options->pid_count && !*ret_err; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			options->pid = options->pids[i];
			options->pid_count = 1;
			options->is_one_of_several = true;
			/* The captures share standard output: write one JSON object by one
			 * write. */
			setvbuf(stdout, NULL, _IOFBF, 1u << 16);
			return false;
		}
		if (pid > 0)
			captures.pid[captures.count++] = pid;
		else
			*ret_err = ht_err_sys(errno, "cannot start a process for the capture");
	}
	if (*ret_err)
		signal_all(&captures, SIGTERM);
	await_all(&captures);
	*ret = captures.worst;
	return true;
}
