/* SPDX-License-Identifier: Apache-2.0 */
#include "format/live.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "format/map.h"

#define CAPACITY_MIN 1024u
#define HUGE_BYTES   ((size_t)2 << 20)

/* In sixteenths of the slots: USED_MAX may be used; with more live blocks than LIVE_MAX the table
 * grows instead of reclaiming freed places. */
#define USED_MAX 10u
#define LIVE_MAX 7u

static size_t bytes_of_slots(size_t capacity)
{
	return capacity * sizeof(struct live_entry);
}

static void unmap(void *slots, size_t bytes)
{
	if (bytes)
		munmap(slots, bytes);
}

/* Returns zeroed slots. Accesses are spread over the whole table, so huge pages save TLB misses. */
static struct live_entry *map_slots(size_t capacity)
{
	const size_t bytes = bytes_of_slots(capacity);
	const size_t margin = bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : 0;
	char *start = mmap(NULL, bytes + margin, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	if (!margin)
		return (void *)start;
	const size_t before = -(uintptr_t)start % HUGE_BYTES;
	unmap(start, before);
	unmap(start + before + bytes, margin - before);
	madvise(start + before, bytes, MADV_HUGEPAGE);
	return (void *)(start + before);
}

void live_deinit(struct live *live)
{
	if (live->slot)
		unmap(live->slot, bytes_of_slots(live->capacity));
	*live = (struct live){0};
}

static void enter_again(struct live *live, const struct live_entry *block)
{
	struct live_entry *place = live_enter(live, block->addr);
	*place = *block;
}

/* With the same multiplier the blocks of both tables are in the same order, so the copy is
 * sequential in both. */
static void move_blocks(struct live *from, struct live *to)
{
	const size_t step = HUGE_BYTES / sizeof(*from->slot);
	for (size_t i = 0; i < from->capacity; i++) {
		if (live_is_live(&from->slot[i]))
			enter_again(to, &from->slot[i]);
		if (i % step == step - 1)
			madvise(&from->slot[i + 1 - step], HUGE_BYTES, MADV_DONTNEED);
	}
}

static bool has_room(const struct live *live)
{
	return live->used * 16 < live->capacity * USED_MAX;
}

struct ht_err *live_reserve(struct live *live)
{
	const bool is_attacked = live->is_crowded && live->multiplier == LIVE_MULTIPLIER;
	if (ht_likely(has_room(live) && !is_attacked))
		return NULL;
	struct live next = {
		.capacity = live->capacity ? live->capacity : CAPACITY_MIN,
		.multiplier = live->capacity ? live->multiplier : LIVE_MULTIPLIER,
	};
	if (is_attacked)
		next.multiplier = map_random_multiplier();
	if (live->count * 16 > live->capacity * LIVE_MAX)
		next.capacity *= 2;
	next.shift = 64 - (unsigned)__builtin_ctzll(next.capacity);
	next.slot = map_slots(next.capacity);
	if (!next.slot)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu live blocks", next.capacity);
	move_blocks(live, &next);
	live_deinit(live);
	*live = next;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct live_entry *x = a, *y = b;
	if (x->birth_ns != y->birth_ns)
		return x->birth_ns < y->birth_ns ? -1 : 1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

void live_list(struct live *live)
{
	size_t kept = 0;
	for (size_t i = 0; i < live->capacity; i++)
		if (live_is_live(&live->slot[i]))
			live->slot[kept++] = live->slot[i];
	if (kept)
		qsort(live->slot, kept, sizeof(*live->slot), compare);
}
