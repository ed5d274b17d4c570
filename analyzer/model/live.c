/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/live.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyzer/model/map.h"

void live_deinit(struct live *live)
{
	free(live->slot);
	*live = (struct live){0};
}

static size_t home(const struct live *live, uint64_t addr)
{
	return (addr * live->multiplier >> live->shift) & ~(size_t)1;
}

static struct live_block *find(const struct live *live, uint64_t addr)
{
	size_t at = home(live, addr);
	while (live->slot[at].addr && live->slot[at].addr != addr)
		at = (at + 1) & (live->capacity - 1);
	return &live->slot[at];
}

#define HUGE_PAGE_BYTES (2u << 20)
#define LINE_BYTES	64u

/* Zeroed. A table of many pages is hit everywhere at once: in huge pages the processor finds them.
 */
static struct live_block *new_slots(size_t capacity)
{
	const size_t bytes = capacity * sizeof(struct live_block);
	const bool is_large = bytes >= 2 * HUGE_PAGE_BYTES;
	void *slots = aligned_alloc(is_large ? HUGE_PAGE_BYTES : LINE_BYTES, bytes);
	if (slots && is_large)
		madvise(slots, bytes, MADV_HUGEPAGE);
	if (slots)
		memset(slots, 0, bytes);
	return slots;
}

static struct ht_err *grow(struct live *live)
{
	struct live bigger = *live;
	bigger.capacity = live->capacity ? live->capacity * 2 : 1024;
	bigger.shift = 64 - (unsigned)__builtin_ctzll(bigger.capacity);
	bigger.slot = new_slots(bigger.capacity);
	if (!bigger.slot)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for %zu live blocks", bigger.capacity);
	for (size_t i = 0; i < live->capacity; i++)
		if (live->slot[i].addr)
			*find(&bigger, live->slot[i].addr) = live->slot[i];
	free(live->slot);
	*live = bigger;
	return NULL;
}

/* Moves later blocks of the same run up, so that no search meets a hole before its block. */
static void close_hole(struct live *live, size_t hole)
{
	size_t mask = live->capacity - 1;
	for (size_t at = (hole + 1) & mask; live->slot[at].addr; at = (at + 1) & mask) {
		size_t distance = (at - home(live, live->slot[at].addr)) & mask;
		if (distance < ((at - hole) & mask))
			continue;
		live->slot[hole] = live->slot[at];
		hole = at;
	}
	live->slot[hole].addr = 0;
}

/* Takes the block at `addr` out of the table. */
static bool take_from_table(struct live *live, uint64_t addr, struct live_block *ret)
{
	struct live_block *slot = live->capacity ? find(live, addr) : NULL;
	if (!slot || !slot->addr)
		return false;
	*ret = *slot;
	close_hole(live, (size_t)(slot - live->slot));
	live->count--;
	return true;
}

/* Puts a block into the table, which has none at its address. */
static struct ht_err *put_into_table(struct live *live, const struct live_block *block)
{
	if (live->count * 8 >= live->capacity * 5) {
		struct ht_err *err = grow(live);
		if (err)
			return err;
	}
	*find(live, block->addr) = *block;
	live->count++;
	return NULL;
}

struct ht_err *live_put(struct live *live, const struct live_block *block,
	struct live_block *ret_older, bool *ret_replaced)
{
	if (ht_unlikely(!live->multiplier))
		live->multiplier = map_random_multiplier();
	const size_t at = live_recent_index(live, block->addr);
	struct live_block *recent = &live->recent[at];
	if (recent->addr == block->addr) {
		*ret_replaced = live->is_live[at];
		if (*ret_replaced)
			*ret_older = *recent;
	} else {
		*ret_replaced = take_from_table(live, block->addr, ret_older);
		struct ht_err *err = live->is_live[at] ? put_into_table(live, recent) : NULL;
		if (err)
			return err;
	}
	*recent = *block;
	live->is_live[at] = true;
	return NULL;
}

bool live_take(struct live *live, uint64_t addr, struct live_block *ret)
{
	if (!addr || !live->multiplier)
		return false;
	const size_t at = live_recent_index(live, addr);
	struct live_block *recent = &live->recent[at];
	if (recent->addr == addr) {
		const bool was_live = live->is_live[at];
		*ret = *recent;
		live->is_live[at] = false;
		return was_live;
	}
	const bool is_taken = take_from_table(live, addr, ret);
	if (!live->is_live[at])
		recent->addr = addr;
	return is_taken;
}

static int compare(const void *a, const void *b)
{
	const struct live_block *x = a, *y = b;
	if (x->birth_ns != y->birth_ns)
		return x->birth_ns < y->birth_ns ? -1 : 1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

struct ht_err *live_list(struct live *live)
{
	size_t kept = 0;
	for (size_t i = 0; i < LIVE_RECENT; i++) {
		struct ht_err *err =
			live->is_live[i] ? put_into_table(live, &live->recent[i]) : NULL;
		if (err)
			return err;
		live->is_live[i] = false;
	}
	for (size_t i = 0; i < live->capacity; i++)
		if (live->slot[i].addr)
			live->slot[kept++] = live->slot[i];
	if (kept)
		qsort(live->slot, kept, sizeof(*live->slot), compare);
	return NULL;
}
