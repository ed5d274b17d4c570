/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/beside.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/cli/print.h"
#include "attach/run/command.h"

static void start(struct beside *beside)
{
	sigset_t none;
	beside->pid = fork();
	if (beside->pid < 0) {
		print_text(stderr, "heaptap: %s was not started: %s\n", beside->words[0],
			strerror(errno));
		beside->is_over = true;
	}
	if (beside->pid)
		return;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	const int sys = command_exec(beside->words);
	print_text(stderr, "heaptap: %s was not started: %s\n", beside->words[0], strerror(sys));
	_exit(127);
}

bool beside_is_over(void *context)
{
	struct beside *beside = context;
	int status;
	if (!beside->pid)
		start(beside);
	if (!beside->is_over)
		beside->is_over = waitpid(beside->pid, &status, WNOHANG) != 0;
	return beside->is_over;
}
