/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/finished.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/capture/start.h"
#include "attach/cli/print.h"
#include "attach/run/command.h"

#define WORDS_MAX 64u
#define LOOK_MS	  50

/* --- the command ------------------------------------------------------------------------------ */

static void tell(const char *command, int status)
{
	char end[64];
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status))
		snprintf(end, sizeof(end), "signal %d ended it", WTERMSIG(status));
	else
		snprintf(end, sizeof(end), "exit status %d", WEXITSTATUS(status));
	print_text(stderr, "WARNING: --exec: %s: %s\n", command, end);
}

/* Collects those that have ended; returns how many still run. */
static unsigned collect(struct finished *finished)
{
	unsigned running = 0;
	for (size_t i = 0; i < FINISHED_RUNNING; i++) {
		int status;
		if (!finished->running[i])
			continue;
		const pid_t got = waitpid(finished->running[i], &status, WNOHANG);
		if (got == 0) {
			running++;
			continue;
		}
		if (got > 0)
			tell(finished->command, status);
		finished->running[i] = 0;
	}
	return running;
}

/* In the child: becomes the command, with the trace as its last argument. */
static int become(const char *command, const char *path)
{
	char *words = strdup(command), *word[WORDS_MAX + 2], *rest = words;
	size_t count = 0;
	sigset_t none;
	if (!words)
		return ENOMEM;
	for (char *at; count < WORDS_MAX && (at = strsep(&rest, " "));)
		if (*at)
			word[count++] = at;
	word[count++] = (char *)path;
	word[count] = NULL;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	return command_exec(word);
}

static void run(struct finished *finished, const char *path)
{
	size_t free_at = 0;
	(void)collect(finished);
	while (free_at < FINISHED_RUNNING && finished->running[free_at])
		free_at++;
	if (free_at == FINISHED_RUNNING) {
		print_text(stderr, "WARNING: --exec: not run for %s: %u commands still run\n", path,
			FINISHED_RUNNING);
		return;
	}
	const pid_t pid = fork();
	if (pid == 0) {
		const int sys = become(finished->command, path);
		print_text(stderr, "WARNING: --exec: %s: %s\n", finished->command, strerror(sys));
		_exit(127);
	}
	if (pid > 0)
		finished->running[free_at] = pid;
	else
		print_text(stderr, "WARNING: --exec: cannot fork: %s\n", strerror(errno));
}

void finished_wait(struct finished *finished)
{
	sigset_t set;
	start_ending_signals(&set);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	struct pollfd wait = {.fd = signals, .events = POLLIN};
	while (collect(finished) > 0 && poll(&wait, 1, LOOK_MS) <= 0)
		;
	if (signals >= 0)
		close(signals);
}

/* --- the files -------------------------------------------------------------------------------- */

/* Removes the file if it is still the one that was written. */
static void discard(struct finished_file *file)
{
	struct stat info;
	if (file->path && lstat(file->path, &info) == 0 && info.st_dev == file->device &&
		info.st_ino == file->inode && unlink(file->path) != 0)
		print_text(stderr, "WARNING: cannot remove %s: %s\n", file->path, strerror(errno));
	free(file->path);
}

/* False: it is not there, or there is no memory. `path` may be NULL: no file. */
static bool note(struct finished_file *file, const char *path)
{
	struct stat info;
	if (!path)
		return true;
	if (lstat(path, &info) != 0)
		return false;
	*file = (struct finished_file){strdup(path), info.st_dev, info.st_ino};
	return file->path != NULL;
}

static void remember(struct finished *finished, const char *path, const char *page)
{
	struct finished_trace one = {0}, *kept;
	kept = reallocarray(finished->kept, finished->count + 1, sizeof(*kept));
	if (kept)
		finished->kept = kept;
	if (!kept || !note(&one.trace, path)) {
		free(one.trace.path);
		return;
	}
	/* A page that could not be written is none. */
	if (!note(&one.page, page))
		one.page = (struct finished_file){0};
	kept[finished->count++] = one;
}

void finished_add(struct finished *finished, const char *path, const char *page)
{
	if (finished->command)
		run(finished, path);
	if (!finished->keep)
		return;
	remember(finished, path, page);
	if (finished->count <= finished->keep)
		return;
	discard(&finished->kept[0].trace);
	discard(&finished->kept[0].page);
	finished->count--;
	memmove(finished->kept, finished->kept + 1, finished->count * sizeof(*finished->kept));
}

void finished_deinit(struct finished *finished)
{
	for (size_t i = 0; i < finished->count; i++) {
		free(finished->kept[i].trace.path);
		free(finished->kept[i].page.path);
	}
	free(finished->kept);
	*finished = (struct finished){0};
}
