/* SPDX-License-Identifier: Apache-2.0
 *
 * Frees that have not arrived yet: their blocks were given up when the addresses were allocated
 * again (analyzer/DESIGN.md, replay).
 */
#pragma once

#include "format/base.h"

#define OWED_MAX 64u

/* Zero-initialised is empty. */
struct owed {
	unsigned count;
	struct owed_free {
		uint64_t addr, tsc;
		uint32_t thread; /* that allocated the address; its own frees are in order */
	} entry[OWED_MAX];
};

/* `thread` has allocated `addr` at `tsc`, which held a block whose free is not known. Forgets the
 * oldest of too many. */
void owed_add(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread);
/* Is the free of `addr` by `thread` an owed one? Removes it, and those that are overdue. */
bool owed_take(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread);
