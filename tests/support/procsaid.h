/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes what a process is doing, from /proc, for messages about a process that hangs.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Describes one thread, with ", " before each part. Returns the length, at most `bytes` - 1. */
size_t procsaid(pid_t tid, char *text, size_t bytes);
/* Describes all threads of a process in turn. */
size_t procsaid_all(pid_t pid, char *text, size_t bytes);
