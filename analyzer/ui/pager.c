/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/helper.h"

#define PAGER_DEFAULT	 "less -R -F -X"
#define STATUS_NOT_FOUND 127 /* exit status of a shell that finds no such command */
#define STATUS_CANNOT	 126

extern char **environ;

struct ht_err *pager_open(bool is_wanted, const struct terminal *terminal, struct pager *ret)
{
	*ret = (struct pager){.out = stdout, .terminal = *terminal};
	if (!is_wanted || !terminal->is_terminal)
		return NULL;
	ret->out = open_memstream(&ret->data, &ret->length);
	return ret->out ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the output");
}

/* Counts screen lines; a colour escape sequence takes no column, any other character takes one
 * column. */
static size_t count_rows(const struct pager *pager)
{
	size_t rows = 0, columns = 0;
	for (size_t i = 0; i < pager->length; i++) {
		char byte = pager->data[i];
		if (byte == '\033') {
			while (i + 1 < pager->length && pager->data[i] != 'm')
				i++;
		} else if (byte == '\n') {
			rows++;
			columns = 0;
		} else if ((byte & 0xc0) != 0x80 && ++columns > pager->terminal.columns) {
			rows++;
			columns = 1;
		}
	}
	return rows + (columns > 0);
}

static const char *choose_command(void)
{
	const char *command = getenv("PAGER");
	if (!command)
		return PAGER_DEFAULT;
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

/* Runs `command` in a shell; `*ret_input` is its standard input. Returns 0 or an errno. */
static int start(const char *command, pid_t *ret_pid, int *ret_input)
{
	char shell[] = "sh", option[] = "-c";
	char *text = strdup(command);
	char *argv[] = {shell, option, text, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int ends[2];
	if (!text)
		return ENOMEM;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		free(text);
		return errno;
	}
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGQUIT);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	int sys = posix_spawn(ret_pid, "/bin/sh", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	free(text);
	if (sys)
		close(ends[1]);
	*ret_input = ends[1];
	return sys;
}

static void feed(int input, const char *data, size_t length)
{
	while (length) {
		ssize_t written = write(input, data, length);
		if (written < 0 && errno == EINTR)
			continue;
		/* The user has closed the pager. */
		if (written <= 0)
			break;
		data += written;
		length -= (size_t)written;
	}
	close(input);
}

/* Shows the text with a pager. False: no pager could run. */
static bool show(const char *command, const char *data, size_t length)
{
	/* Ctrl-C belongs to the pager. */
	const int number[] = {SIGINT, SIGQUIT, SIGPIPE};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before[HT_ARRAY_SIZE(number)];
	int input = -1, status = 0;
	pid_t pid;
	fflush(stdout);
	/* Without these options, less prints colour escape sequences as text. */
	setenv("LESS", "FRX", false);
	for (size_t i = 0; i < HT_ARRAY_SIZE(number); i++)
		sigaction(number[i], &ignore, &before[i]);
	bool has_run = start(command, &pid, &input) == 0;
	if (has_run) {
		feed(input, data, length);
		status = helper_wait(pid);
		has_run = !WIFEXITED(status) || (WEXITSTATUS(status) != STATUS_NOT_FOUND &&
							WEXITSTATUS(status) != STATUS_CANNOT);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(number); i++)
		sigaction(number[i], &before[i], NULL);
	return has_run;
}

struct ht_err *pager_close(struct pager *pager)
{
	if (pager->out == stdout)
		return NULL;
	bool has_failed = ferror(pager->out);
	has_failed |= fclose(pager->out) != 0;
	struct ht_err *err =
		has_failed ? ht_err_new(HT_ERR_NOMEM, "no memory for the output") : NULL;
	const char *command = choose_command();
	/* The shell's prompt needs a row too. */
	bool is_long = !err && count_rows(pager) >= pager->terminal.rows;
	if (!err && !(is_long && command && show(command, pager->data, pager->length)))
		fwrite(pager->data, 1, pager->length, stdout);
	free(pager->data);
	*pager = (struct pager){0};
	return err;
}
