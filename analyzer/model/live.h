/* SPDX-License-Identifier: Apache-2.0
 *
 * The live set: blocks allocated in the window and not freed yet, by address. Memory is bounded by
 * the number of live blocks.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

struct live_block {
	uint64_t addr;		/* never 0 */
	uint64_t size;		/* requested bytes */
	uint32_t stack;		/* node id, 0: none */
	uint32_t thread : 27;	/* index of the thread that allocated it */
	uint32_t hook : 4;	/* the function that it called: replay.h */
	uint32_t rounds_up : 1; /* of a sample: sample.h */
	uint64_t birth_ns;	/* when it was allocated, since the window's start */
};

#define LIVE_RECENT 1024u

/*
 * Zero-initialised is empty and valid. Most blocks live for a short time: the newest of those whose
 * addresses have one hash stand in `recent`, which stays in the processor's cache, and all others
 * in `slot`. An address that was freed last there is known to be in neither.
 */
struct live {
	struct live_block *slot;
	size_t capacity; /* a power of two, or 0 */
	size_t count;	 /* of those in `slot` */
	uint64_t multiplier;
	unsigned shift; /* 64 - log2(capacity): the upper bits of a product are the good ones */
	struct live_block recent[LIVE_RECENT]; /* addr 0: nothing is known */
	bool is_live[LIVE_RECENT];	       /* else `addr` is known to be free */
};

static inline size_t live_recent_index(const struct live *live, uint64_t addr)
{
	return addr * live->multiplier >> (64 - 10);
}
_Static_assert(LIVE_RECENT == 1u << 10, "the bits of live_recent_index");

void live_deinit(struct live *live);
/* Puts `block` in. When its address was taken, the older block moves to `ret_older` and
 * `*ret_replaced` is true. */
HT_MUST_CHECK
struct ht_err *live_put(struct live *live, const struct live_block *block,
	struct live_block *ret_older, bool *ret_replaced);
/* Asks for the memory where the block at `addr` is, or will be. */
static inline void live_prefetch(const struct live *live, uint64_t addr)
{
	if (!live->capacity)
		return;
	__builtin_prefetch(&live->slot[addr * live->multiplier >> live->shift], 1);
}
/* Ends a live set: slot[0] to slot[count - 1] are its blocks, oldest first; only live_deinit may
 * follow. */
HT_MUST_CHECK
struct ht_err *live_list(struct live *live);
/* Takes the block at `addr` out; false when there is none. */
bool live_take(struct live *live, uint64_t addr, struct live_block *ret);
