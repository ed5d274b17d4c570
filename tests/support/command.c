/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/command.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void command_init(struct command *command)
{
	int in[2], out[2];
	ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	*command = (struct command){
		.victim = {.in_fd = in[1], .out_fd = out[0]}, .in_fd = in[0], .out_fd = out[1]};
}

void command_prepare(void *context)
{
	const struct command *command = context;
	dup2(command->in_fd, STDIN_FILENO);
	dup2(command->out_fd, STDOUT_FILENO);
}

void command_forked(struct command *command)
{
	close(command->in_fd);
	close(command->out_fd);
	command->in_fd = command->out_fd = -1;
}

bool command_has_begun(const struct command *command)
{
	struct pollfd wait = {.fd = command->victim.out_fd, .events = POLLIN};
	return poll(&wait, 1, 0) == 1 && wait.revents & POLLIN;
}

bool command_begins(struct command *command, unsigned limit_ms)
{
	if (!victim_await(&command->victim, limit_ms))
		victim_complain(&command->victim, "neither runs nor ends", limit_ms);
	if (!command_has_begun(command))
		return false;
	char *line = victim_line(&command->victim, limit_ms);
	ck_assert_int_eq(sscanf(line, "ready %d", &command->victim.pid), 1);
	free(line);
	return true;
}

void command_deinit(struct command *command)
{
	const int fds[] = {
		command->victim.in_fd, command->victim.out_fd, command->in_fd, command->out_fd};
	for (size_t i = 0; i < HT_ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void command_start(
	struct command *command, struct run *run, const char *const argv[], unsigned limit_ms)
{
	command_init(command);
	run_start_prepared(run, argv, command_prepare, command);
	command_forked(command);
	ck_assert(command_begins(command, limit_ms));
}
