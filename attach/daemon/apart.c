/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/apart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "format/helper.h"

/* A reader that waits for the end of the parent's output must not wait for this process. */
static void leave_terminal(bool keep_stdout)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != STDOUT_FILENO || !keep_stdout)
			helper_silence(fd);
}

bool apart_become(const char *name, int first, int second, bool keep_stdout)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* What ends the daemon's process group (Ctrl-\, timeout -s KILL) leaves us the rest. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, name);
	/* First: a standard descriptor may be closed, and `first` in its place. */
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, APART_FIRST_FD, -1};
	/* Neither may lie where the other goes. */
	if (second >= 0)
		second = fcntl(second, F_DUPFD_CLOEXEC, APART_SECOND_FD + 1);
	if (dup2(first, APART_FIRST_FD) != APART_FIRST_FD)
		return false;
	if (second >= 0)
		kept[4] = dup3(second, APART_SECOND_FD, O_CLOEXEC);
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		return false;
	leave_terminal(keep_stdout);
	fcntl(APART_FIRST_FD, F_SETFD, FD_CLOEXEC);
	return true;
}
