/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds which functions of a program have an entry hook: compares their first bytes in memory with
 * the bytes before the attach. Looks up names in the program's file without code of attach/, on
 * purpose.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "tests/support/tap.h"

#define HOOKEDCODE_MAX	 16
#define HOOKEDCODE_BYTES 24 /* read of each function: the jump is among them */

struct hookedcode {
	uint64_t addr[HOOKEDCODE_MAX];
	uint8_t before[HOOKEDCODE_MAX][HOOKEDCODE_BYTES];
	size_t bytes[HOOKEDCODE_MAX]; /* HOOKEDCODE_BYTES, or less for a short function */
	size_t count;
	int memory; /* descriptor of /proc/PID/mem; the owner closes it */
};

/* Stores the first bytes of the functions `names` (NULL-terminated) of `program`, which `pid` runs.
 * Call it before the attach: none may be hooked yet. */
void hookedcode_watch(
	struct hookedcode *ret, pid_t pid, const char *program, const char *const names[]);
/* The number of functions of which exactly one of the stored bytes has changed, into the opcode of
 * a jump (0xe9). */
size_t hookedcode_count(const struct hookedcode *code);
/* Waits until all functions have that jump and all other hooks are in place. Fails the test after
 * 30 s, or if heaptap ends before. */
void hookedcode_wait(const struct hookedcode *code, struct tap *tap);
