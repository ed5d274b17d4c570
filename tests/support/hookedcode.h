/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds which functions of a program have an entry hook: compares their first bytes in memory with
 * those before. Looks up names in the program's file itself, independently of attach/ on purpose.
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
/* The number of functions whose only change is a new jump at one of their first bytes. */
size_t hookedcode_count(const struct hookedcode *code);
/* Waits until all functions have that jump and all other hooks are in place. */
void hookedcode_wait(const struct hookedcode *code, struct tap *tap);
