/* SPDX-License-Identifier: Apache-2.0
 *
 * Frees that have not arrived yet: an address was allocated again while a block was live there, so
 * the analyzer's replay or the filter of --cull has ended that block (analyzer/DESIGN.md, replay).
 */
#pragma once

#include "format/base.h"

#define OWED_MAX 64u

/* Zero-initialised is empty. */
struct owed {
	unsigned count;
	struct owed_free {
		uint64_t addr, tsc;
		uint32_t thread; /* the thread that allocated the address again: only a free by
				    another thread can be the late one */
	} entry[OWED_MAX];
};

/* Notes that `thread` has allocated `addr` at `tsc` while a block was live there, so the free of
 * that block is owed. If OWED_MAX are noted, forgets the oldest. */
void owed_add(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread);
/* Whether a free of `addr` by `thread`, stamped `tsc`, is an owed one. If so, removes its entry. In
 * any case removes entries that are too old for a late free (owed.c). */
bool owed_take(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread);
