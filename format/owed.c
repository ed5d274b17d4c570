/* SPDX-License-Identifier: Apache-2.0 */
#include "format/owed.h"

/* Stamps of two threads are inverted by at most this (a few milliseconds). So a free that comes
 * later than this after an allocation of its address is a free of the new block. */
#define INVERSION_CYCLES (1u << 24)

void owed_add(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread)
{
	if (owed->count == OWED_MAX) {
		for (unsigned i = 1; i < OWED_MAX; i++)
			owed->entry[i - 1] = owed->entry[i];
		owed->count--;
	}
	owed->entry[owed->count++] = (struct owed_free){addr, tsc, thread};
}

bool owed_take(struct owed *owed, uint64_t addr, uint64_t tsc, uint32_t thread)
{
	bool found = false;
	unsigned kept = 0;
	for (unsigned i = 0; i < owed->count; i++) {
		const struct owed_free entry = owed->entry[i];
		bool in_time = (int64_t)(tsc - entry.tsc) < (int64_t)INVERSION_CYCLES;
		if (!found && in_time && entry.addr == addr && entry.thread != thread)
			found = true;
		else if (in_time)
			owed->entry[kept++] = entry;
	}
	owed->count = kept;
	return found;
}
