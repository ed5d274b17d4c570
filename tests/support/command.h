/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of tests/targets that heaptap starts (`heaptap run`), with pipes of the test as its
 * stdin and stdout. Once the command runs, the test uses it like any other victim.
 */
#pragma once

#include "tests/support/run.h"
#include "tests/support/victim.h"

struct command {
	struct victim victim; /* its PID is unknown until the command begins */
	int in_fd, out_fd;    /* the command's ends of the pipes */
};

/* Makes the pipes. */
void command_init(struct command *command);
/* A `prepare` for run_start_prepared: the command's pipe ends become the child's stdin and stdout.
 * `context` is the struct command. */
void command_prepare(void *context);
/* Closes the test's copies of the command's pipe ends, so that the test reads end of file once the
 * command has ended. Call it once the processes that need those ends have been forked. */
void command_forked(struct command *command);
/* Waits until the command runs, and reads its "ready PID". False: it never ran, and all processes
 * that had its stdout have ended. Fails the test after `limit_ms`. */
bool command_begins(struct command *command, unsigned limit_ms);
/* Does all of the above: starts heaptap by `argv` as `run`, and returns when the command runs.
 * Fails the test after `limit_ms`. */
void command_start(
	struct command *command, struct run *run, const char *const argv[], unsigned limit_ms);
/* Has the command printed anything that the test has not read? Before command_begins this means
 * that the command has begun to run. Never waits. */
bool command_has_begun(const struct command *command);
/* Closes the pipes, which ends the command if it still runs. */
void command_deinit(struct command *command);
