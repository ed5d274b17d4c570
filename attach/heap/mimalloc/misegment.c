/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/misegment.h"

#include <string.h>

#define HEADS_LATER (1u << MIBUILD_2_1_8 | HEADS_2_2)
#define HEADS_2_2   (1u << MIBUILD_2_2_2 | 1u << MIBUILD_2_3_0)

#define MEDIUM	     8u		  /* slices; smaller pages have one slice */
#define SMALL_SHARE  8u		  /* of the medium maximum: largest block in a one-slice page */
#define LARGE_MAX    (16u << 20)  /* larger blocks have a segment of their own */
#define LARGE_SLICES 8u		  /* larger pages have a multiple of these */
#define HUGE_BYTES   (1ull << 31) /* as a block's size: the whole page */
#define HUGE_MAX     (1ull << 46)
#define START_BLOCKS 5u /* the first block begins within so many blocks */

/* Layouts in memory: before 2.1.4, and since. */
struct slice_old {
	uint32_t count, offset;
	uint8_t committed, more;
	uint16_t capacity, reserved;
	uint8_t flags, retired;
	raddr_t free;
	uint32_t used, block_bytes;
	raddr_t local_free, thread_free;
	raddr_t heap, next, previous;
	uint64_t padding;
};

struct slice {
	uint32_t count;	 /* slices, of which this one is the first */
	uint32_t offset; /* bytes from this description back to the first slice's */
	uint8_t committed, more;
	uint16_t capacity, reserved;
	uint8_t flags, retired;
	raddr_t free, local_free;
	uint16_t used;
	uint8_t shift, tag;
	uint32_t padding;
	uint64_t block_bytes; /* 0: free */
	raddr_t start;	      /* of its blocks; 0: unknown */
	raddr_t thread_free;
	raddr_t heap, next, previous;
	uint64_t last;
};

struct use {
	uint64_t abandoned, visits, used, cookie;
};

struct extent {
	uint64_t slices, info_slices;
	uint32_t is_huge, padding;
	uint64_t entries;
	raddr_t thread;
};

struct head_old {
	uint64_t memory[6], decommit[8], commit[8];
	raddr_t next[2];
	struct use use;
	struct extent extent;
};

struct head {
	uint64_t memory[7], decommit[8], commit[8];
	raddr_t next[2];
	struct use use;
	raddr_t others[2];
	struct extent extent;
};

_Static_assert(sizeof(struct slice_old) == 80, "as in mimalloc");
_Static_assert(sizeof(struct slice) == 96, "as in mimalloc");
_Static_assert(offsetof(struct head_old, use.cookie) == 216, "as in mimalloc");
_Static_assert(offsetof(struct head, use.cookie) == 224, "as in mimalloc");
_Static_assert(sizeof(struct head_old) == 264, "as in mimalloc");
_Static_assert(sizeof(struct head) == 288, "as in mimalloc");

/* Layouts, and the builds that have them. */
static const struct form {
	unsigned builds;
	size_t head_bytes, slice_bytes;
} forms[] = {
	{1u << MIBUILD_2_0_9 | 1u << MIBUILD_2_1_2, sizeof(struct head_old),
		sizeof(struct slice_old)},
	{1u << MIBUILD_2_1_4, sizeof(struct head_old), sizeof(struct slice)},
	{HEADS_LATER, sizeof(struct head), sizeof(struct slice)},
};

#define SEGMENT_BYTES (sizeof(struct head) + MIWALK_SLICES * sizeof(struct slice))

struct segment {
	const struct form *form;
	struct head head;
	uint8_t data[SEGMENT_BYTES];
};

static void head_take(const struct form *form, const uint8_t *data, struct head *ret)
{
	struct head_old old;
	memcpy(ret, data, sizeof(*ret));
	if (form->head_bytes == sizeof(*ret))
		return;
	memcpy(&old, data, sizeof(old));
	memcpy(ret->commit, old.commit, sizeof(ret->commit));
	ret->use = old.use;
	ret->extent = old.extent;
}

static struct slice slice_of(const struct segment *segment, uint64_t index)
{
	const struct form *form = segment->form;
	const uint8_t *data = segment->data + form->head_bytes + index * form->slice_bytes;
	struct slice_old old;
	struct slice slice;
	if (form->slice_bytes == sizeof(slice)) {
		memcpy(&slice, data, sizeof(slice));
		return slice;
	}
	memcpy(&old, data, sizeof(old));
	/* No page has so many blocks: without a capacity the slice is none. */
	bool too_many = old.used > UINT16_MAX;
	return (struct slice){.count = old.count,
		.offset = old.offset,
		.capacity = too_many ? 0 : old.capacity,
		.reserved = old.reserved,
		.used = too_many ? UINT16_MAX : (uint16_t)old.used,
		.block_bytes = old.block_bytes,
		.thread_free = old.thread_free,
		.heap = old.heap};
}

static bool is_own(const struct head *head, raddr_t addr, uint64_t cookie)
{
	return (head->use.cookie ^ addr) == cookie;
}

/* Pages that the program has not touched stay zeros. */
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

bool misegment_is(struct view *view, raddr_t addr, uint64_t cookie, unsigned builds)
{
	uint8_t data[sizeof(struct head)];
	raddr_t at = addr, end;
	if (!view_touched(view, &at, addr + HT_PAGE_BYTES, &end) || at != addr ||
		!view_read(view, addr, data, sizeof(data)))
		return false;
	for (size_t i = 0; i < HT_ARRAY_SIZE(forms); i++) {
		struct head head;
		head_take(&forms[i], data, &head);
		if ((forms[i].builds & builds) && is_own(&head, addr, cookie) && head.use.used)
			return true;
	}
	return false;
}

static bool head_is_sane(const struct head *head)
{
	const struct extent *extent = &head->extent;
	uint64_t entries = extent->slices < MIWALK_SLICES ? extent->slices : MIWALK_SLICES;
	return extent->info_slices && extent->info_slices < entries && extent->entries == entries &&
	       extent->is_huge <= 1 && (extent->is_huge || extent->slices == MIWALK_SLICES) &&
	       extent->slices < HUGE_MAX / MIWALK_SLICE_BYTES &&
	       head->use.abandoned <= head->use.used && head->use.used <= entries;
}

static uint64_t committed_bytes(const struct head *head)
{
	uint64_t count = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(head->commit); i++)
		count += (unsigned)__builtin_popcountll(head->commit[i]);
	return head->extent.slices * MIWALK_SLICE_BYTES / MIWALK_SLICES * count;
}

/* Does the page have as many slices as its block needs? Later versions leave the rest of the slices
 * out of the block's size. */
static bool is_large(enum mibuild build, const struct slice *slice)
{
	uint64_t bytes = slice->block_bytes;
	uint64_t slices = (bytes + MIWALK_SLICE_BYTES - 1) / MIWALK_SLICE_BYTES;
	if (slices > LARGE_SLICES)
		slices = (slices + LARGE_SLICES - 1) / LARGE_SLICES * LARGE_SLICES;
	if (build < MIBUILD_2_1_4)
		return bytes == (uint64_t)slice->count * MIWALK_SLICE_BYTES && bytes <= LARGE_MAX;
	return bytes % HT_PAGE_BYTES == 0 && bytes <= LARGE_MAX && slices == slice->count;
}

/* Blocks have the size of one of the queues, or a page of their own. */
static bool is_size(enum mibuild build, const struct slice *slice)
{
	uint64_t bytes = slice->block_bytes, medium = mibuild_medium_max(build);
	if (bytes > medium)
		return is_large(build, slice);
	for (size_t i = 1; i < MIHEAP_SIZES; i++)
		if (miheap_block_bytes(i) == bytes)
			return slice->count == (bytes <= medium / SMALL_SHARE ? 1 : MEDIUM);
	return false;
}

static unsigned builds_of(
	const struct slice *slice, const struct miwalk_page *page, bool is_huge, unsigned builds)
{
	unsigned fit = 0;
	for (unsigned i = 0; i < MIBUILDS; i++)
		if ((builds >> i & 1) && (is_huge || is_size(i, slice)) &&
			slice->reserved ==
				(page->bytes - miwalk_start(i, page)) / page->block_bytes)
			fit |= 1u << i;
	return fit;
}

/* Is the page being made or given back? That can take as long as a system call; none of its blocks
 * is handed out. */
static bool is_on_its_way(const struct slice *slice)
{
	return !slice->capacity && !slice->used;
}

/* Does the block have the size of its page? Later versions keep the whole size of a huge block;
 * before, it is cut to HUGE_BYTES. */
static bool is_huge_size(const struct form *form, const struct slice *slice, uint64_t page_bytes)
{
	bool is_cut = form->slice_bytes == sizeof(struct slice_old) && page_bytes >= HUGE_BYTES;
	return slice->block_bytes == (is_cut ? HUGE_BYTES : page_bytes);
}

static bool is_start(
	const struct form *form, const struct slice *slice, const struct miwalk_page *page)
{
	if (form->slice_bytes == sizeof(struct slice_old))
		return true;
	return slice->start % 8 == 0 && page->start < page->bytes &&
	       page->start / START_BLOCKS < page->block_bytes;
}

static bool page_take(const struct segment *segment, const struct slice *slice, raddr_t addr,
	struct misegment *ret)
{
	const struct form *form = segment->form;
	bool is_huge = segment->head.extent.is_huge;
	struct miwalk_page page = {.addr = addr,
		.bytes = (uint64_t)slice->count * MIWALK_SLICE_BYTES,
		.block_bytes = slice->block_bytes,
		.used = slice->used,
		.list = slice->thread_free & ~3ull,
		.heap = slice->heap,
		.thread = segment->head.extent.thread};
	if (is_huge && !is_huge_size(form, slice, page.bytes))
		return false;
	if (is_huge)
		page.block_bytes = page.bytes;
	page.start = slice->start - addr;
	if (!is_start(form, slice, &page))
		return false;
	ret->builds = builds_of(slice, &page, is_huge, ret->builds);
	if (!ret->builds || !slice->capacity || slice->capacity > slice->reserved ||
		slice->used > slice->capacity || slice->heap % 8)
		return false;
	ret->page[ret->count++] = page;
	return true;
}

/* The last of several slices points to the first. */
static bool leads_back(const struct segment *segment, uint64_t index, uint64_t end)
{
	return end - index == 1 || segment->head.extent.is_huge ||
	       slice_of(segment, end - 1).offset == (end - index - 1) * segment->form->slice_bytes;
}

static bool pages_take(const struct segment *segment, raddr_t addr, struct misegment *ret)
{
	const struct head *head = &segment->head;
	uint64_t entries = head->extent.entries, on_their_way = 0;
	for (uint64_t index = 0, next; index < entries; index = next) {
		struct slice slice = slice_of(segment, index);
		next = index + slice.count;
		if (next > entries && head->extent.is_huge)
			next = entries;
		if (slice.offset || next <= index || next > entries ||
			!leads_back(segment, index, next))
			return false;
		/* The first slice is the description itself. */
		if (!index && (slice.count != head->extent.info_slices || !slice.block_bytes))
			return false;
		if (!index || !slice.block_bytes)
			continue;
		if (is_on_its_way(&slice))
			on_their_way++;
		else if (!page_take(segment, &slice, addr + index * MIWALK_SLICE_BYTES, ret))
			return false;
	}
	return ret->count <= head->use.used && head->use.used <= ret->count + on_their_way;
}

bool misegment_read(
	struct view *view, raddr_t addr, uint64_t cookie, unsigned builds, struct misegment *ret)
{
	struct segment segment;
	ret->count = 0;
	ret->builds = builds;
	ret->thread = 0;
	ret->system_bytes = 0;
	if (!read_touched(view, addr, segment.data, sizeof(segment.data)))
		return false;
	for (size_t i = 0; i < HT_ARRAY_SIZE(forms); i++) {
		const struct head *head = &segment.head;
		segment.form = &forms[i];
		head_take(segment.form, segment.data, &segment.head);
		if (!(segment.form->builds & builds) || !is_own(head, addr, cookie) ||
			!head_is_sane(head))
			continue;
		ret->builds = builds & segment.form->builds;
		ret->thread = head->extent.thread;
		ret->system_bytes = committed_bytes(head);
		return pages_take(&segment, addr, ret);
	}
	return false;
}
