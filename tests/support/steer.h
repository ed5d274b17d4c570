/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap status`, stop, pause and the like, as a test uses them.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "format/base.h"

/* Runs heaptap COMMAND -p PID WORD (NULL: none). Returns its exit status; `out` and `err` (unless
 * NULL) get its output, malloc'd. */
int steer(const char *command, pid_t pid, const char *word, char **out, char **err);
/* The same; anything but 0 fails the test. */
void steer_do(const char *command, pid_t pid, const char *word);
/* The one capture in `heaptap status -p PID --json`. */
json_t *steer_status(pid_t pid);
/* A number in it. */
uint64_t steer_figure(pid_t pid, const char *name);
/* Fails the test unless its state is `state`. */
void steer_check_state(pid_t pid, const char *state);
