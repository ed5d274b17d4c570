/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts heaptap to attach to this process, and waits for it, or reads its output.
 *
 * usage: parent HEAPTAP
 *
 *      wait ARGUMENTS       runs `HEAPTAP attach -p SELF ARGUMENTS`; its stdout and stderr are a
 *                           full pipe that is not read; answers "status N"
 *      read FILE ARGUMENTS  runs it with a pipe for stdout, which goes into FILE; after each read
 *                           of the pipe this process makes a million allocator calls; answers
 *                           "status N calls N"
 *      log ARGUMENTS        runs it, and copies each line of its stderr to a new block; answers
 *                           "status N lines N: " and the last line
 *
 * Another thread allocates and checks its memory all the time while it waits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/targets/speak.h"

#define ARGUMENTS_MAX 32
#define READ_BYTES    65536
#define PAIRS_A_READ  500000

static atomic_bool works;
static const char *heaptap;

static void *work(void *arg)
{
	for (unsigned char fill = 1; atomic_load(&works); fill++) {
		unsigned char *memory = malloc(100);
		memset(memory, fill, 100);
		for (int i = 0; i < 100; i++)
			if (memory[i] != fill)
				speak_fail("memory changed");
		free(memory);
		usleep(100);
	}
	return arg;
}

/* Splits `text` at blanks and appends the words to `argv`, which has `count` words. */
static void split(char *text, char *argv[], size_t count)
{
	for (char *word; (word = strsep(&text, " "));) {
		if (count == ARGUMENTS_MAX - 1)
			speak_fail("too many arguments");
		argv[count++] = word;
	}
	argv[count] = NULL;
}

static pid_t start(char *arguments, int out, int err)
{
	char pid[16], *argv[ARGUMENTS_MAX] = {(char *)heaptap, "attach", "-p", pid};
	snprintf(pid, sizeof(pid), "%d", getpid());
	split(arguments, argv, 4);
	pid_t child = fork();
	if (child < 0)
		speak_fail("cannot fork: errno %d", errno);
	if (child)
		return child;
	dup2(out, STDOUT_FILENO);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	execv(heaptap, argv);
	_exit(126);
}

static int await(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			speak_fail("waitpid: errno %d", errno);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void make_pipe(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC))
		speak_fail("no pipe: errno %d", errno);
}

static void fill(int fd)
{
	static const char zeros[4096];
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	fcntl(fd, F_SETFL, 0);
}

static void run_unread(char *arguments)
{
	int pipe_fd[2];
	make_pipe(pipe_fd);
	fill(pipe_fd[1]);
	speak_add("status %d", await(start(arguments, pipe_fd[1], pipe_fd[1])));
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void run_read(char *arguments)
{
	static char data[READ_BYTES];
	char *path = strsep(&arguments, " ");
	unsigned long calls = 0;
	int pipe_fd[2], file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	make_pipe(pipe_fd);
	pid_t child = start(arguments, pipe_fd[1], -1);
	close(pipe_fd[1]);
	for (ssize_t got; (got = read(pipe_fd[0], data, sizeof(data))) > 0;) {
		for (int i = 0; i < PAIRS_A_READ; i++, calls += 2) {
			void *volatile ptr = malloc(32);
			free(ptr);
		}
		if (write(file, data, (size_t)got) != got)
			speak_fail("cannot write %s: errno %d", path, errno);
	}
	close(pipe_fd[0]);
	close(file);
	speak_add("status %d calls %lu", await(child), calls);
}

static void run_logged(char *arguments)
{
	char *last = NULL, *line = NULL;
	size_t room = 0;
	unsigned lines = 0;
	int pipe_fd[2];
	make_pipe(pipe_fd);
	pid_t child = start(arguments, STDOUT_FILENO, pipe_fd[1]);
	close(pipe_fd[1]);
	FILE *said = fdopen(pipe_fd[0], "r");
	for (; getline(&line, &room, said) > 0; lines++) {
		line[strcspn(line, "\n")] = '\0';
		free(last);
		last = strdup(line);
	}
	fclose(said);
	speak_add("status %d lines %u: %s", await(child), lines, last ? last : "");
	free(last);
	free(line);
}

int main(int argc, char **argv)
{
	pthread_t worker;
	if (argc != 2)
		speak_fail("usage: parent HEAPTAP");
	heaptap = argv[1];
	/* When the first thread starts, glibc installs a signal handler. */
	if (pthread_create(&worker, NULL, work, NULL))
		speak_fail("no thread");
	pthread_join(worker, NULL);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		char text[256];
		snprintf(text, sizeof(text), "%s", command);
		atomic_store(&works, true);
		if (pthread_create(&worker, NULL, work, NULL))
			speak_fail("no thread");
		if (!strncmp(text, "wait ", 5))
			run_unread(text + 5);
		else if (!strncmp(text, "read ", 5))
			run_read(text + 5);
		else if (!strncmp(text, "log ", 4))
			run_logged(text + 4);
		else
			speak_fail("no command %s", text);
		atomic_store(&works, false);
		pthread_join(worker, NULL);
		speak_send();
	}
	return 0;
}
