/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter's state of each stream, mainly the realloc that has no outcome yet; and late frees: an
 * address was allocated again before the free of its older block arrived.
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
	/* Number of the thread period (tally.h) of the last event with `tid`; valid until
	 * `until_tsc`, while tally.names is `names`. */
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
		uint32_t thread; /* the thread that allocated the address again: only a free by
				    another thread can be the late one */
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

/* `thread` has allocated `addr` while an older block is live there: notes that the older block's
 * free may come late. */
void lanes_owe(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread);
/* Whether a free of `addr` by `thread` is a late free that lanes_owe has noted. If so, removes the
 * note. */
bool lanes_absorb(struct lanes *lanes, uint64_t addr, uint64_t tsc, uint32_t thread);
