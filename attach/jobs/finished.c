/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/finished.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/cli/print.h"
#include "attach/jobs/command.h"
#include "format/helper.h"

#define WORDS_MAX 64u

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

/* In the child: becomes the command, with the trace as its last argument. */
static int become(const char *command, const char *path)
{
	char *words = strdup(command), *word[WORDS_MAX + 2], *rest = words;
	size_t count = 0;
	if (!words)
		return ENOMEM;
	for (char *at; count < WORDS_MAX && (at = strsep(&rest, " "));)
		if (*at)
			word[count++] = at;
	word[count++] = (char *)path;
	word[count] = NULL;
	helper_reset_signals();
	return command_exec(word);
}

static void run(struct finished *finished, const char *path)
{
	finished->crew.command = finished->command;
	finished->crew.tell = tell;
	if (crew_is_full(&finished->crew)) {
		print_text(stderr, "WARNING: --exec: not run for %s: %u commands still run\n", path,
			CREW_MAX);
		return;
	}
	if (crew_fork(&finished->crew, "--exec") != 0)
		return;
	const int sys = become(finished->command, path);
	print_text(stderr, "WARNING: --exec: %s: %s\n", finished->command, strerror(sys));
	_exit(127);
}

/* --- the files -------------------------------------------------------------------------------- */

/* Removes the file if its path still leads to the file that heaptap wrote. */
static void discard(struct finished_file *file)
{
	struct stat info;
	if (file->path && lstat(file->path, &info) == 0 && info.st_dev == file->device &&
		info.st_ino == file->inode && unlink(file->path) != 0)
		print_text(stderr, "WARNING: cannot remove %s: %s\n", file->path, strerror(errno));
	free(file->path);
}

/* Sets `file`; `path` NULL: there is no file. False: the file is missing, or there is no memory. */
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
	/* If the page was not written, remember the trace without a page. */
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
