/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions of a program are hooked at their entry: their first bytes in its memory, by the
 * names of its file. A second opinion, written apart from attach/ on purpose.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "tests/support/tap.h"

#define HOOKEDCODE_MAX 16

struct hookedcode {
	uint64_t addr[HOOKEDCODE_MAX];
	size_t count;
	int memory; /* of the process; to be closed */
};

/* The functions `names` (NULL ends them) of the position-independent `program`, which `pid` runs.
 */
void hookedcode_watch(
	struct hookedcode *ret, pid_t pid, const char *program, const char *const names[]);
/* How many of them begin with a jump. */
size_t hookedcode_count(const struct hookedcode *code);
/* Waits until all do. */
void hookedcode_wait(const struct hookedcode *code, struct tap *tap);
