/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says a process is doing, for messages about one that does not do what it should.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Of one thread: ", " before each part. Returns the length, at most `bytes` - 1. */
size_t procsaid(pid_t tid, char *text, size_t bytes);
/* Of all threads of a process, one after the other. */
size_t procsaid_all(pid_t pid, char *text, size_t bytes);
