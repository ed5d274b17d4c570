/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/push.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/capture/start.h"
#include "attach/trace/symbols.h"
#include "attach/cli/print.h"

#define PATH_BYTES 4200u
#define LOOK_MS	   50
#define NICE	   10

struct ht_err *push_check(const struct push *push)
{
	char path[PATH_BYTES];
	if (!push->address[0])
		return NULL;
	const int fd = symbols_open_analyzer(path, sizeof(path));
	if (fd < 0)
		return ht_err_new(HT_ERR_SYS,
			"--push needs heaptap-analyze, which is not beside heaptap; install both");
	close(fd);
	return NULL;
}

/* In the child. A capture blocks the signals that end it; they end this program. */
static void execute(const struct push *push, const char *trace)
{
	char program[] = "heaptap", command[] = "push", to[] = "--to", quiet[] = "-q", end[] = "--";
	char *argv[2 * SERIES_PUSH_MAX + 6] = {program, command}, path[PATH_BYTES];
	size_t count = 2;
	const int fd = symbols_open_analyzer(path, sizeof(path));
	sigset_t none;
	for (size_t i = 0; i < SERIES_PUSH_MAX && push->address[i]; i++) {
		argv[count++] = to;
		argv[count++] = (char *)push->address[i];
	}
	if (push->quiet)
		argv[count++] = quiet;
	argv[count++] = end;
	argv[count++] = (char *)trace;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	/* The target may need the core. */
	setpriority(PRIO_PROCESS, 0, NICE);
	if (fd < 0)
		return;
	close(fd);
	execv(path, argv);
}

/* Collects those that have ended; returns how many still run. */
static unsigned collect(struct push *push)
{
	unsigned running = 0;
	for (size_t i = 0; i < PUSH_RUNNING; i++) {
		if (push->running[i] && waitpid(push->running[i], NULL, WNOHANG) != 0)
			push->running[i] = 0;
		running += push->running[i] != 0;
	}
	return running;
}

void push_start(struct push *push, const char *trace)
{
	size_t free_at = 0;
	if (!push->address[0])
		return;
	(void)collect(push);
	while (free_at < PUSH_RUNNING && push->running[free_at])
		free_at++;
	if (free_at == PUSH_RUNNING) {
		print_text(stderr,
			"WARNING: --push: %s is not sent: %u windows are still being sent\n", trace,
			PUSH_RUNNING);
		return;
	}
	const pid_t pid = fork();
	if (pid == 0) {
		execute(push, trace);
		_exit(127);
	}
	if (pid > 0)
		push->running[free_at] = pid;
	else
		print_text(stderr, "WARNING: --push: cannot fork: %s\n", strerror(errno));
}

void push_wait(struct push *push)
{
	sigset_t set;
	if (!push->address[0])
		return;
	start_ending_signals(&set);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	struct pollfd wait = {.fd = signals, .events = POLLIN};
	while (collect(push) > 0 && poll(&wait, 1, LOOK_MS) <= 0)
		;
	if (signals >= 0)
		close(signals);
}
