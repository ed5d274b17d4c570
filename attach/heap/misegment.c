/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/misegment.h"

#include <string.h>

#define SMALL_MAX  16384u	/* blocks of which a page is one slice */
#define MEDIUM_MAX (128u << 10) /* eight slices; larger ones have a page each */
#define MEDIUM	   8u
#define LARGE_MAX  (16u << 20)	/* larger ones have a segment each */
#define HUGE_BYTES (1ull << 31) /* as a block's size: all of the page */
#define HUGE_MAX   (1ull << 46)

/* As they lie in memory. */
struct slice {
	uint32_t count;	 /* of slices that this one is the first of */
	uint32_t offset; /* of the first one's description */
	uint8_t committed, more;
	uint16_t capacity, reserved;
	uint8_t flags, retired;
	raddr_t free;
	uint32_t used, block_bytes; /* 0: nobody has it */
	raddr_t local_free, thread_free;
	raddr_t heap, next, previous;
	uint64_t padding;
};

struct head {
	uint64_t memory[6], decommit[8], commit[8];
	raddr_t abandoned_next, next;
	uint64_t abandoned, visits, used, cookie;
	uint64_t slices, info_slices;
	uint32_t is_huge, padding;
	uint64_t entries;
	raddr_t thread;
};

struct segment {
	struct head head;
	struct slice slice[MIWALK_SLICES];
};

_Static_assert(sizeof(struct slice) == 80, "as in mimalloc");
_Static_assert(offsetof(struct head, cookie) == 216, "as in mimalloc");
_Static_assert(offsetof(struct segment, slice) == 264, "as in mimalloc");

static bool is_own(const struct head *head, raddr_t addr, uint64_t cookie)
{
	return (head->cookie ^ addr) == cookie;
}

/* What the program has not touched remains zeros. */
static bool read_touched(struct view *view, raddr_t addr, void *ret, size_t bytes)
{
	raddr_t end;
	memset(ret, 0, bytes);
	for (raddr_t at = addr; view_touched(view, &at, addr + bytes, &end); at = end) {
		if (!view_holds(view, at) || !view_holds(view, end - 1))
			return false;
		if (view_read_data(view, at, (uint8_t *)ret + (at - addr), end - at) != end - at)
			return false;
	}
	return !view->spent && !view->err;
}

bool misegment_is(struct view *view, raddr_t addr, uint64_t cookie)
{
	struct head head;
	raddr_t at = addr, end;
	return view_touched(view, &at, addr + HT_PAGE_BYTES, &end) && at == addr &&
	       view_read(view, addr, &head, sizeof(head)) && is_own(&head, addr, cookie) &&
	       head.used;
}

static bool head_is_sane(const struct head *head)
{
	uint64_t entries = head->slices < MIWALK_SLICES ? head->slices : MIWALK_SLICES;
	return head->info_slices && head->info_slices < entries && head->entries == entries &&
	       head->is_huge <= 1 && (head->is_huge || head->slices == MIWALK_SLICES) &&
	       head->slices < HUGE_MAX / MIWALK_SLICE_BYTES && head->abandoned <= head->used &&
	       head->used <= entries;
}

static uint64_t committed_bytes(const struct head *head)
{
	uint64_t count = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(head->commit); i++)
		count += (unsigned)__builtin_popcountll(head->commit[i]);
	return head->slices * MIWALK_SLICE_BYTES / MIWALK_SLICES * count;
}

/* Blocks are of one of the queues' sizes, or have a page for themselves. */
static bool is_size(const struct slice *slice, uint64_t bytes)
{
	if (bytes > MEDIUM_MAX)
		return bytes == (uint64_t)slice->count * MIWALK_SLICE_BYTES && bytes <= LARGE_MAX;
	for (size_t i = 1; i < MIHEAP_SIZES; i++)
		if (miheap_block_bytes(i) == bytes)
			return slice->count == (bytes <= SMALL_MAX ? 1 : MEDIUM);
	return false;
}

uint64_t miwalk_start(unsigned rule, uint64_t block_bytes)
{
	if (rule == 0)
		return block_bytes <= 1024 ? 384 : 0;
	if (block_bytes <= 64)
		return 3 * block_bytes;
	return block_bytes <= 512 ? block_bytes : 0;
}

static unsigned rules_of(const struct slice *slice, uint64_t bytes, uint64_t page_bytes)
{
	unsigned rules = 0;
	for (unsigned i = 0; i < MIWALK_RULES; i++)
		if (slice->reserved == (page_bytes - miwalk_start(i, bytes)) / bytes)
			rules |= 1u << i;
	return rules;
}

/* Being made, or given back, which can take as long as the system takes for its memory: no block of
 * it is handed out. */
static bool is_on_its_way(const struct slice *slice)
{
	return !slice->capacity && !slice->used;
}

static bool page_take(
	const struct head *head, const struct slice *slice, raddr_t addr, struct misegment *ret)
{
	uint64_t bytes = slice->block_bytes;
	uint64_t page_bytes = (uint64_t)slice->count * MIWALK_SLICE_BYTES;
	if (head->is_huge ? bytes != (page_bytes < HUGE_BYTES ? page_bytes : HUGE_BYTES)
			  : !is_size(slice, bytes))
		return false;
	if (head->is_huge)
		bytes = page_bytes;
	ret->rules &= rules_of(slice, bytes, page_bytes);
	if (!ret->rules || !slice->capacity || slice->capacity > slice->reserved ||
		slice->used > slice->capacity || slice->heap % 8)
		return false;
	ret->page[ret->count++] = (struct miwalk_page){.addr = addr,
		.bytes = page_bytes,
		.block_bytes = bytes,
		.used = slice->used,
		.list = slice->thread_free & ~3ull,
		.heap = slice->heap,
		.thread = head->thread};
	return true;
}

/* The last slice of several leads back to the first. */
static bool leads_back(const struct segment *segment, uint64_t index, uint64_t end)
{
	return end - index == 1 || segment->head.is_huge ||
	       segment->slice[end - 1].offset == (end - index - 1) * sizeof(struct slice);
}

bool misegment_read(
	struct view *view, raddr_t addr, uint64_t cookie, unsigned rules, struct misegment *ret)
{
	struct segment segment;
	const struct head *head = &segment.head;
	ret->count = 0;
	ret->rules = rules;
	ret->system_bytes = 0;
	if (!read_touched(view, addr, &segment, sizeof(segment)) || !is_own(head, addr, cookie) ||
		!head_is_sane(head))
		return false;
	uint64_t on_their_way = 0;
	ret->thread = head->thread;
	ret->system_bytes = committed_bytes(head);
	for (uint64_t index = 0, next; index < head->entries; index = next) {
		const struct slice *slice = &segment.slice[index];
		next = index + slice->count;
		if (next > head->entries && head->is_huge)
			next = head->entries;
		if (slice->offset || next <= index || next > head->entries ||
			!leads_back(&segment, index, next))
			return false;
		/* The first one is the description itself. */
		if (!index && (slice->count != head->info_slices || !slice->block_bytes))
			return false;
		if (!index || !slice->block_bytes)
			continue;
		if (is_on_its_way(slice))
			on_their_way++;
		else if (!page_take(head, slice, addr + index * MIWALK_SLICE_BYTES, ret))
			return false;
	}
	return ret->count <= head->used && head->used <= ret->count + on_their_way;
}
