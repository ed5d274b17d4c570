/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/parent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/inherited.h"

#define LOOK_MS 50

struct ht_err *parent_fork(char *const argv[], struct launch *ret)
{
	struct ht_err *err = launch_fork(argv, ret);
	HT_THEN(err, inherited_leave_descriptors(ret->fd));
	if (!err)
		inherited_parent_signals();
	return err;
}

/* The kernel sends a terminal's signals to the command, too: passes on only those that a process
 * has sent. */
static void pass_on(const struct launch *launch, const struct signalfd_siginfo *signal)
{
	if (signal->ssi_code <= 0 && !launch->ended)
		kill(launch->pid, (int)signal->ssi_signo);
}

static bool is_foreground(void)
{
	int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (terminal < 0)
		return false;
	bool is = tcgetpgrp(terminal) == getpgrp();
	close(terminal);
	return is;
}

/* If the command was stopped, stops heaptap, too: the shell waits for heaptap, takes back its
 * terminal, and later continues heaptap, which then continues the command. */
static void follow_stop(const struct launch *launch)
{
	if (!launch_has_stopped(launch) || !is_foreground())
		return;
	raise(SIGSTOP);
	kill(launch->pid, SIGCONT);
}

static struct ht_err *let_go(void *context)
{
	return launch_let_go(context);
}

static void attend(void *context, const struct signalfd_siginfo *signal)
{
	struct launch *launch = context;
	if (signal)
		pass_on(launch, signal);
	else
		follow_stop(launch);
}

static struct ht_err *leave(void *context)
{
	launch_leave(context);
	return NULL;
}

static bool hold(void *context, const struct follow_ask *ask)
{
	struct launch *launch = context;
	launch_hold(launch, ask);
	return launch->followed != FOLLOW_NOTHING;
}

struct session_child parent_child(struct launch *launch, bool follows)
{
	struct session_child child = {.attend = attend, .context = launch};
	launch->late = !launch->waits && launch->followed != FOLLOW_WAITS;
	if (!launch->late)
		child.let_go = launch->waits ? let_go : leave;
	if (follows)
		child.hold = hold;
	return child;
}

void parent_wait(struct launch *launch)
{
	launch_look(launch);
	if (launch->ended)
		return;
	/* Without the pidfd heaptap notices the command's end up to LOOK_MS later. */
	struct pollfd wait[] = {
		{.fd = (int)syscall(SYS_pidfd_open, launch->pid, 0), .events = POLLIN},
		{.fd = inherited_open_signals(), .events = POLLIN}};
	while (!launch->ended) {
		struct signalfd_siginfo signal;
		poll(wait, HT_ARRAY_SIZE(wait), LOOK_MS);
		while (read(wait[1].fd, &signal, sizeof(signal)) == (ssize_t)sizeof(signal))
			pass_on(launch, &signal);
		follow_stop(launch);
		launch_look(launch);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(wait); i++)
		if (wait[i].fd >= 0)
			close(wait[i].fd);
}

int parent_status(const struct launch *launch)
{
	return WIFSIGNALED(launch->status) ? 128 + WTERMSIG(launch->status)
					   : WEXITSTATUS(launch->status);
}

void parent_end_alike(const struct launch *launch)
{
	sigset_t set;

	if (!WIFSIGNALED(launch->status))
		return;
	/* Only the command dumps core. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(WTERMSIG(launch->status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(launch->status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(WTERMSIG(launch->status));
}
