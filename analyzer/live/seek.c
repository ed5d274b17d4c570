/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/seek.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/live/capture.h"
#include "analyzer/live/told.h"
#include "format/helper.h"

#define WORDS_MAX 10u

/* Returns 0 or an errno; `*ret`: the exit status. */
static int run(char *const argv[], int output, int words, int *ret)
{
	posix_spawn_file_actions_t files;
	int status = 0, sys = posix_spawn_file_actions_init(&files);
	pid_t pid;
	if (sys)
		return sys;
	posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, words, STDERR_FILENO);
	sys = posix_spawn(&pid, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (!sys)
		status = helper_wait(pid);
	*ret = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return sys;
}

static struct ht_err *read_pid(int output, pid_t *ret)
{
	char text[32] = "", *end;
	const ssize_t got = pread(output, text, sizeof(text) - 1, 0);
	const long pid = strtol(text, &end, 10);
	if (got <= 0 || *end != '\n' || pid <= 0 || pid > INT_MAX)
		return ht_err_new(HT_ERR_INTERNAL, "heaptap has printed no PID");
	*ret = (pid_t)pid;
	return NULL;
}

static struct ht_err *ask(char *const argv[], int output, int words, pid_t *ret)
{
	int status = 0;
	if (output < 0 || words < 0)
		return ht_err_sys(errno, "cannot make room for an answer");
	const int sys = run(argv, output, words, &status);
	if (sys)
		return ht_err_sys(sys, "cannot run %s", argv[0]);
	HT_TRY(told_error(words, status, "heaptap find failed without a message"));
	return read_pid(output, ret);
}

struct ht_err *seek_process(const struct seek_query *query, pid_t *ret)
{
	char heaptap[PATH_MAX], command[] = "find";
	char *argv[WORDS_MAX] = {heaptap, command};
	const struct {
		const char *option, *value;
	} given[] = {{"--name", query->name}, {"--unit", query->unit},
		{"--container", query->container}};
	size_t at = 2;
	HT_TRY(capture_find_program(heaptap));
	for (size_t i = 0; i < HT_ARRAY_SIZE(given); i++) {
		if (!given[i].value)
			continue;
		argv[at++] = (char *)(uintptr_t)given[i].option;
		argv[at++] = (char *)(uintptr_t)given[i].value;
	}
	const int output = memfd_create("pid", MFD_CLOEXEC);
	const int words = memfd_create("words", MFD_CLOEXEC);
	struct ht_err *err = ask(argv, output, words, ret);
	if (output >= 0)
		close(output);
	if (words >= 0)
		close(words);
	return err;
}
