/* SPDX-License-Identifier: Apache-2.0
 *
 * The error of a reading of the allocators' counters, from the change of live bytes meanwhile. Each
 * arena is read at another moment, so the reading may have seen each thread's live bytes at any
 * level between their least and most during that time. A lane holds these levels: one lane per
 * thread for small blocks; one per thread and size class for large blocks, which may lie in
 * mappings of their own.
 */
#pragma once

#include "analyzer/model/block.h"

#define SPREAD_LANES 1024u /* a power of two */

/* Zero-initialised is empty, valid and off. */
struct spread {
	bool is_on;
	uint64_t rest_bytes; /* bytes allocated and freed of blocks without a lane */
	uint32_t count;
	struct spread_lane {
		uint64_t key; /* 0: free */
		int64_t now, least, most;
	} lane[SPREAD_LANES];
};

void spread_begin(struct spread *spread);
void spread_allocated(struct spread *spread, const struct live_block *block);
void spread_freed(struct spread *spread, const struct live_block *block);
/* Ends the reading; returns the largest error that it may have. */
uint64_t spread_end(struct spread *spread);
