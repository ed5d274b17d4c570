/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/victim.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/procsaid.h"
#include "tests/support/run.h"

#define STEP_MS	  100u
#define ANSWER_MS 20000 /* far more than a healthy target needs on a loaded machine */

static void run_child(const char *const argv[], const int in[2], const int out[2])
{
	dup2(in[0], STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* survives the exec; fails without Yama */
	execv(argv[0], (char **)argv);
	perror(argv[0]);
	_exit(127);
}

static void start(struct victim *victim, pid_t wanted, const char *const argv[])
{
	int in[2], out[2];
	ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	signal(SIGPIPE, SIG_IGN);
	pid_t pid = wanted ? child_fork_as(wanted) : fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		signal(SIGPIPE, SIG_DFL);
		if (!wanted)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_child(argv, in, out);
	}
	close(in[0]);
	close(out[1]);
	victim->pid = pid;
	victim->in_fd = in[1];
	victim->out_fd = out[0];
	victim->pending_bytes = 0;
	char expected[32];
	snprintf(expected, sizeof(expected), "ready %d", pid);
	char *line = victim_line(victim, ANSWER_MS);
	ck_assert_str_eq(line, expected);
	free(line);
}

void victim_start(struct victim *victim, const char *const argv[])
{
	start(victim, 0, argv);
}

void victim_start_as(struct victim *victim, pid_t pid, const char *const argv[])
{
	start(victim, pid, argv);
}

void victim_send(struct victim *victim, const char *command)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%s\n", command);
	ck_assert_int_eq(write(victim->in_fd, line, (size_t)length), length);
}

static char *take_line(struct victim *victim)
{
	char *newline = memchr(victim->pending, '\n', victim->pending_bytes);
	if (!newline)
		return NULL;
	size_t length = (size_t)(newline - victim->pending);
	char *line = strndup(victim->pending, length);
	victim->pending_bytes -= length + 1;
	memmove(victim->pending, newline + 1, victim->pending_bytes);
	return line;
}

/* Counts steps of poll, not clock time: if the machine stops the test for long, that counts as one
 * step. */
bool victim_await(const struct victim *victim, unsigned limit_ms)
{
	struct pollfd wait = {.fd = victim->out_fd, .events = POLLIN};
	int ready = 0;
	for (unsigned waited_ms = 0; !ready && waited_ms < limit_ms; waited_ms += STEP_MS)
		ready = poll(&wait, 1, STEP_MS);
	return ready;
}

void victim_complain(const struct victim *victim, const char *what, unsigned limit_ms)
{
	static char text[8192];
	if (victim->pid)
		procsaid_all(victim->pid, text, sizeof(text));
	ck_abort_msg("victim %d %s, within %u ms%s", victim->pid, what, limit_ms, text);
}

char *victim_line(struct victim *victim, unsigned limit_ms)
{
	for (;;) {
		char *line = take_line(victim);
		if (line)
			return line;
		ck_assert_msg(victim->pending_bytes < sizeof(victim->pending), "endless line");
		if (!victim_await(victim, limit_ms))
			victim_complain(victim, "printed no line", limit_ms);
		ssize_t got = read(victim->out_fd, victim->pending + victim->pending_bytes,
			sizeof(victim->pending) - victim->pending_bytes);
		if (got <= 0) {
			int status = victim_wait(victim, 1000);
			ck_abort_msg("victim %d ended (status %d)", victim->pid, status);
		}
		victim->pending_bytes += (size_t)got;
	}
}

char *victim_ask(struct victim *victim, const char *command, unsigned limit_ms)
{
	victim_send(victim, command);
	return victim_line(victim, limit_ms);
}

void victim_prove_alive(struct victim *victim)
{
	char *answer = victim_ask(victim, "ping", ANSWER_MS);
	ck_assert_str_eq(answer, "pong");
	free(answer);
}

int victim_wait(struct victim *victim, unsigned limit_ms)
{
	uint64_t end = run_now_ms() + limit_ms;
	int status;
	while (waitpid(victim->pid, &status, WNOHANG) == 0) {
		if (run_now_ms() >= end) {
			kill(victim->pid, SIGKILL);
			ck_abort_msg("victim %d did not end within %u ms", victim->pid, limit_ms);
		}
		run_pause();
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void close_pipes(struct victim *victim)
{
	close(victim->in_fd);
	close(victim->out_fd);
}

void victim_stop(struct victim *victim)
{
	victim_send(victim, "stop");
	int status = victim_wait(victim, ANSWER_MS);
	ck_assert_msg(status == 0, "victim %d ended with status %d", victim->pid, status);
	close_pipes(victim);
}

void victim_kill(struct victim *victim)
{
	kill(victim->pid, SIGKILL);
	ck_assert_int_eq(victim_wait(victim, ANSWER_MS), 128 + SIGKILL);
	close_pipes(victim);
}

void victim_poke(pid_t pid, uint64_t addr, const void *bytes, size_t count)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, bytes, count, (off_t)addr), (ssize_t)count);
	close(fd);
}

uint64_t victim_libc(pid_t pid, bool last)
{
	char line[4400], path[64];
	uint64_t lo = 0, hi = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "r-xp") && strstr(line, "/libc.so.6"))
			ck_assert_int_eq(sscanf(line, "%lx-%lx", &lo, &hi), 2);
	fclose(maps);
	ck_assert_uint_gt(hi, lo);
	return last ? hi - 1 : lo;
}
