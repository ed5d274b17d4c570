/* SPDX-License-Identifier: Apache-2.0
 *
 * What the filter knows of each stream, foremost the realloc that is open in it, and the frees that
 * are still to come because their address was allocated again.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"
#include "format/live.h"

enum lane_pending { LANE_NONE, LANE_BLOCK, LANE_BEFORE };

struct lane {
	enum lane_pending pending; /* the old block of a realloc without an outcome */
	bool temporary, begin_is_written;
	uint8_t hook;
	uint32_t thread, begin; /* begin: number of the held REALLOC_BEGIN; 0: none */
	uint64_t usable_bytes;
	struct live_entry block;
	/* The thread of the last event, and until when it is valid. */
	uint32_t caller, tid;
	uint64_t until_tsc, names;
};

#define LANES_OWED_MAX 64u

/* Zero-initialised is empty and valid. */
struct lanes {
	struct lane *lane;
	size_t count, capacity;
	struct lanes_owed {
		uint64_t addr, tsc;
		uint32_t thread; /* the new owner, whose own frees are in order */
	} owed[LANES_OWED_MAX];
	unsigned owed_count;
};

void lanes_deinit(struct lanes *lanes);
/* Makes the lane of a stream. */
HT_MUST_CHECK
struct ht_err *lanes_reserve(struct lanes *lanes, uint32_t stream);

static inline struct lane *lanes_get(const struct lanes *lanes, uint32_t stream)
{
	return &lanes->lane[stream];
}

/* `thread` has allocated an address whose free has not come. */
void lanes_owe(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread);
/* Is a free of `addr` by `thread` such a free? Then it is no more. */
bool lanes_absorb(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread);
