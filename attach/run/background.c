/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/cli/systemlog.h"
#include "attach/cli/print.h"
#include "attach/proc/fd.h"
#include "format/helper.h"
#include "format/quantity.h"

#define RELAY_BYTES 4096u

/* In the process that captures, the pipe through which the caller's process learns that the capture
 * has begun; -1: closed, or not in that process. */
static int begun_fd = -1;

/* One stream of the new process, and the stream of the caller's process to which it is copied. */
struct relay {
	int from, to;
};

struct pipes {
	int begun[2], out[2], words[2];
};

static void close_all(struct pipes *pipes)
{
	for (int i = 0; i < 2; i++) {
		fd_close(&pipes->begun[i]);
		fd_close(&pipes->out[i]);
		fd_close(&pipes->words[i]);
	}
}

static struct ht_err *open_all(struct pipes *pipes)
{
	*pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
	if (pipe2(pipes->begun, O_CLOEXEC) == 0 && pipe2(pipes->out, O_CLOEXEC) == 0 &&
		pipe2(pipes->words, O_CLOEXEC) == 0)
		return NULL;
	struct ht_err *err = ht_err_sys(errno, "cannot make a pipe");
	close_all(pipes);
	return err;
}

/* --- the process that captures --------------------------------------------------------------- */

static void enter(struct pipes *pipes)
{
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, pipes->begun[1]};
	setsid();
	helper_silence(STDIN_FILENO);
	dup2(pipes->out[1], STDOUT_FILENO);
	if (!systemlog_is_stderr())
		dup2(pipes->words[1], STDERR_FILENO);
	begun_fd = pipes->begun[1];
	/* A process that reads an inherited pipe to its end must not wait for this process. */
	(void)!helper_close_all_but(kept, HT_ARRAY_SIZE(kept));
}

static void give_up_streams(void)
{
	helper_silence(STDOUT_FILENO);
	if (!systemlog_is_stderr())
		helper_silence(STDERR_FILENO);
}

void background_begun(void *context)
{
	const char *output = context;
	char path[PATH_MAX] = "";
	if (begun_fd < 0)
		return;
	fflush(stdout);
	fflush(stderr);
	give_up_streams();
	if (output[0] != '/' && !getcwd(path, sizeof(path)))
		*path = '\0';
	size_t length = strlen(path);
	snprintf(path + length, sizeof(path) - length, "%s%s", length ? "/" : "", output);
	(void)!write(begun_fd, path, strlen(path) + 1);
	fd_close(&begun_fd);
}

/* --- the process that returns ---------------------------------------------------------------- */

/* False: the stream has ended, or cannot be copied. */
static bool relay_some(struct relay *relay)
{
	char bytes[RELAY_BYTES];
	ssize_t got = read(relay->from, bytes, sizeof(bytes));
	if (got < 0)
		return errno == EINTR || errno == EAGAIN;
	for (ssize_t sent = 0; sent < got;) {
		ssize_t put = write(relay->to, bytes + sent, (size_t)(got - sent));
		if (put < 0 && errno != EINTR)
			return false;
		sent += put > 0 ? put : 0;
	}
	return got > 0;
}

/* Copies what the process has printed before it began to capture, or ended. */
static void relay_rest(struct relay *relay)
{
	struct pollfd poll_fd = {.fd = relay->from, .events = POLLIN};
	while (poll(&poll_fd, 1, 0) > 0 && relay_some(relay))
		;
}

static void pass_on(int signals, pid_t pid)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		kill(pid, (int)info.ssi_signo);
}

/* Waits until the process has begun to capture, and reads the name of the trace into `path`; or
 * until it has ended without: then `path` is "". */
static void await_begin(pid_t pid, const struct pipes *pipes, char path[PATH_MAX])
{
	struct relay relays[] = {{pipes->out[0], STDOUT_FILENO}, {pipes->words[0], STDERR_FILENO}};
	FD_GUARD int signals = inherited_open_signals();
	struct pollfd wait[] = {{.fd = pipes->begun[0], .events = POLLIN},
		{.fd = signals, .events = POLLIN}, {.fd = relays[0].from, .events = POLLIN},
		{.fd = relays[1].from, .events = POLLIN}};
	*path = '\0';
	do {
		wait[0].revents = 0;
		if (poll(wait, HT_ARRAY_SIZE(wait), -1) < 0)
			continue;
		if (wait[1].revents)
			pass_on(signals, pid);
		for (int i = 0; i < 2; i++)
			if (wait[2 + i].revents && !relay_some(&relays[i]))
				wait[2 + i].fd = -1;
	} while (!wait[0].revents);
	/* The name is shorter than what one write to a pipe keeps together: one read gets all of
	 * it. */
	ssize_t got = read(pipes->begun[0], path, PATH_MAX - 1);
	path[got > 0 ? got : 0] = '\0';
	for (int i = 0; i < 2; i++)
		relay_rest(&relays[i]);
}

static enum exit_status end_status(pid_t pid)
{
	int status = helper_wait(pid);
	if (status >= 0 && WIFEXITED(status))
		return (enum exit_status)WEXITSTATUS(status);
	print_text(stderr, "heaptap: its process was killed before the capture began; 'heaptap "
			   "verify' says whether anything is left\n");
	return EXIT_INTERNAL;
}

static void print_windows(const struct options *options)
{
	const struct series_options *series = &options->series;
	char text[QUANTITY_TEXT_BYTES];
	if (!series->every_ns)
		return;
	print_text(stderr, "windows: one every %s", quantity_duration_text(series->every_ns, text));
	if (series->count)
		print_text(stderr, ", %llu in all", (unsigned long long)series->count);
	print_text(stderr, "; heaptap list shows when the next one begins\n");
}

static struct ht_err *print_begun(const struct options *options, pid_t pid, const char *path)
{
	const int target = (int)options->pid;
	if (options->json)
		return print_json(
			json_pack("{s:s, s:i, s:i, s:o}", "schema", "heaptap.background/1", "pid",
				target, "heaptap_pid", (int)pid, "trace", print_string(path)));
	if (options->quiet)
		return NULL;
	print_text(stderr,
		"heaptap: %s process %d in the background (heaptap is process %d)\ntrace: %s\n",
		series_waits(&options->series) ? "waiting to record" : "recording", target,
		(int)pid, path);
	print_windows(options);
	print_text(stderr, "stop:  heaptap stop -p %d --wait\n", target);
	return NULL;
}

bool background_leave(const struct options *options, enum exit_status *ret, struct ht_err **ret_err)
{
	struct pipes pipes;
	char path[PATH_MAX];
	*ret = EXIT_DONE;
	*ret_err = options->background ? open_all(&pipes) : NULL;
	if (!options->background || *ret_err)
		return *ret_err != NULL;
	inherited_signals();
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		enter(&pipes);
		return false;
	}
	if (pid < 0)
		*ret_err = ht_err_sys(errno, "cannot start a process for the capture");
	fd_close(&pipes.begun[1]);
	fd_close(&pipes.out[1]);
	fd_close(&pipes.words[1]);
	if (pid > 0) {
		await_begin(pid, &pipes, path);
		if (*path)
			*ret_err = print_begun(options, pid, path);
		else
			*ret = end_status(pid);
	}
	close_all(&pipes);
	return true;
}
