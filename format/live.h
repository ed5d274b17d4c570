/* SPDX-License-Identifier: Apache-2.0
 *
 * The live set: blocks allocated in the window and not freed yet, by address. Memory is bounded by
 * the number of live blocks.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* A block that is not freed yet. */
struct live_entry {
	uint64_t addr, size, birth_ns;
	uint32_t note;	       /* of the user of the set */
	uint32_t origin_flags; /* LIVE_* flags; above them a number of the user: the origin
				  (analyzer/model/origins.h) or the site (format/cull/tally.h) */
};

/* Not bit-fields: the compiler would store one byte, and a load of the whole word right after such
 * a store is slow. */
#define LIVE_IS_LIVE	  1u
#define LIVE_ROUNDS_UP	  2u /* live_block.rounds_up (analyzer/model/block.h) */
#define LIVE_ORIGIN_SHIFT 2u

static inline bool live_is_live(const struct live_entry *entry)
{
	return entry->origin_flags & LIVE_IS_LIVE;
}

/*
 * Zero-initialised is empty and valid. A freed block keeps its place, because allocators return the
 * same addresses again. Places of freed blocks are reclaimed when the table is full.
 */
struct live {
	struct live_entry *slot;
	size_t capacity; /* a power of two, or 0 */
	size_t used;	 /* slots with an address */
	size_t count;	 /* number of live blocks */
	uint64_t multiplier;
	unsigned shift;	 /* 64 - log2(capacity): the upper bits of a product are the good ones */
	bool is_crowded; /* a block is more than LIVE_FAR slots behind live_home: the multiplier
			    suits the addresses badly */
};

/*
 * Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, 6.4): addresses at regular
 * distances, which allocators return, collide less than random ones. A random multiplier replaces
 * it if addresses are chosen to collide.
 */
#define LIVE_MULTIPLIER 0x9e3779b97f4a7c15ull
#define LIVE_FAR	128u /* slots */

void live_deinit(struct live *live);

static inline size_t live_home(const struct live *live, uint64_t addr)
{
	return addr * live->multiplier >> live->shift;
}

/* Prefetches the place of the block at `addr`. */
static inline void live_prefetch(const struct live *live, uint64_t addr)
{
	if (live->capacity)
		__builtin_prefetch(&live->slot[live_home(live, addr)], 1);
}

/* The place of `addr` in a table whose capacity is not 0: the place that holds `addr`, or the free
 * place for it, whose addr is 0. */
static inline struct live_entry *live_place(const struct live *live, uint64_t addr)
{
	struct live_entry *slot = live->slot;
	size_t at = live_home(live, addr);
	while (slot[at].addr != addr && slot[at].addr)
		at = (at + 1) & (live->capacity - 1);
	return &slot[at];
}

/* Makes room for one more address. */
HT_MUST_CHECK
struct ht_err *live_reserve(struct live *live);

/* The place for a block at `addr`, which is not 0. If a block is live at `addr`, the place holds
 * that block; otherwise LIVE_IS_LIVE is unset. Room must be reserved. The caller fills the place
 * before the next call. */
static inline struct live_entry *live_enter(struct live *live, uint64_t addr)
{
	struct live_entry *block = live_place(live, addr);
	if (!block->addr) {
		const size_t distance = (size_t)(block - live->slot) - live_home(live, addr);
		live->is_crowded |= (distance & (live->capacity - 1)) > LIVE_FAR;
		block->addr = addr;
		live->used++;
	}
	live->count += !live_is_live(block);
	return block;
}

/* Removes the block at `addr`; NULL if there is none. The entry stays readable until the next
 * live_reserve or live_enter. */
static inline struct live_entry *live_leave(struct live *live, uint64_t addr)
{
	if (!addr || !live->capacity)
		return NULL;
	struct live_entry *block = live_place(live, addr);
	if (!live_is_live(block))
		return NULL;
	block->origin_flags &= ~LIVE_IS_LIVE;
	live->count--;
	return block;
}

/* Turns the set into a list: slot[0] to slot[count - 1] are its blocks, oldest first. Only
 * live_deinit may follow. */
void live_list(struct live *live);
