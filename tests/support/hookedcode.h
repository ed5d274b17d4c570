/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions of a program are hooked at their entry: what their first bytes in its memory were
 * and are, by the names of its file. A second opinion, written apart from attach/ on purpose.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "tests/support/tap.h"

#define HOOKEDCODE_MAX	 16
#define HOOKEDCODE_BYTES 24 /* of a function: one of its first instructions is the jump */

struct hookedcode {
	uint64_t addr[HOOKEDCODE_MAX];
	uint8_t before[HOOKEDCODE_MAX][HOOKEDCODE_BYTES];
	size_t bytes[HOOKEDCODE_MAX]; /* of them: a shorter function has no more */
	size_t count;
	int memory; /* of the process; to be closed */
};

/* The functions `names` (NULL ends them) of `program`, which `pid` runs; none is hooked yet. */
void hookedcode_watch(
	struct hookedcode *ret, pid_t pid, const char *program, const char *const names[]);
/* How many of them have a jump at one of their first bytes where they had none, and nothing else.
 */
size_t hookedcode_count(const struct hookedcode *code);
/* Waits until all do, and everything else is tapped, too. */
void hookedcode_wait(const struct hookedcode *code, struct tap *tap);
