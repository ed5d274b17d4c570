/* SPDX-License-Identifier: Apache-2.0
 *
 * A block that the target allocated in the window, as an observer of the replay sees it.
 */
#pragma once

#include "format/base.h"

struct live_block {
	uint64_t addr;	   /* never 0 */
	uint64_t size;	   /* requested bytes */
	uint64_t birth_ns; /* when it was allocated, since the window's start */
	uint32_t stack;	   /* node id, 0: none */
	uint32_t thread;   /* index of the thread that allocated it */
	uint32_t note;	   /* what the observer stored here when the block was allocated */
	uint8_t hook;	   /* the allocating function, below REPLAY_HOOKS (replay.h) */
	bool rounds_up;	   /* in a sample: its weight is rounded up, not down (sample_share_of) */
};
