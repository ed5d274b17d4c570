/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs `heaptap status`, stop, pause and similar commands in a test.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "format/base.h"

/* Runs `heaptap COMMAND -p PID WORD` (`word` NULL: without it). Returns the exit status; `out` and
 * `err` (unless NULL) get the output, malloc'd. */
int steer(const char *command, pid_t pid, const char *word, char **out, char **err);
/* Like steer, and fails the test unless the exit status is 0. */
void steer_do(const char *command, pid_t pid, const char *word);
/* The one capture in `heaptap status -p PID --json`. */
json_t *steer_status(pid_t pid);
/* The number `name` in steer_status. */
uint64_t steer_figure(pid_t pid, const char *name);
/* Fails the test unless the capture's state is `state`. */
void steer_check_state(pid_t pid, const char *state);
