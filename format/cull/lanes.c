/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/lanes.h"

#include <stdlib.h>

#include "format/array.h"

/* A late free is stamped at most this much after the allocation that reused its address (a few
 * milliseconds), as in the analyzer. */
#define INVERSION_CYCLES (1u << 24)

void lanes_deinit(struct lanes *lanes)
{
	free(lanes->lane);
	*lanes = (struct lanes){0};
}

struct ht_err *lanes_reserve(struct lanes *lanes, uint32_t stream)
{
	while (lanes->count <= stream) {
		if (!ARRAY_HAS_ROOM(lanes->lane, lanes->count, lanes->capacity, 64))
			return ht_err_new(HT_ERR_NOMEM, "out of memory for event streams");
		lanes->lane[lanes->count++] = (struct lane){0};
	}
	return NULL;
}

void lanes_owe(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread)
{
	if (lanes->owed_count == LANES_OWED_MAX) {
		for (unsigned i = 1; i < LANES_OWED_MAX; i++)
			lanes->owed[i - 1] = lanes->owed[i];
		lanes->owed_count--;
	}
	lanes->owed[lanes->owed_count++] =
		(struct lanes_owed){.addr = addr, .tsc = tsc, .thread = thread};
}

bool lanes_absorb(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread)
{
	bool found = false;
	unsigned kept = 0;
	for (unsigned i = 0; i < lanes->owed_count; i++) {
		const struct lanes_owed owed = lanes->owed[i];
		const bool in_time = (int64_t)(tsc - owed.tsc) < (int64_t)INVERSION_CYCLES;
		if (!found && in_time && owed.addr == addr && owed.thread != thread)
			found = true;
		else if (in_time)
			lanes->owed[kept++] = owed;
	}
	lanes->owed_count = kept;
	return found;
}
