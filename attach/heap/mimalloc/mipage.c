/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/mipage.h"

#include <string.h>

/* A build whose pages say where their blocks begin. */
#define STARTS_TOLD (1u << MIBUILD_2_3_0)

#define SIZES		73u	   /* of blocks that share a page */
#define AREA_MAX	(4u << 20) /* up to this size, all slices of a page lead to it */
#define HUGE_MAX	(1ull << 46)
#define DESCRIPTION_MIN 112u /* size of a page's description */
#define ALIGN_FREE	8u
#define FLAGS		7ull /* below a thread's number */
#define OWNED		1ull /* below a list */

/* Layout in memory. */
struct page {
	uint64_t thread;
	raddr_t free;
	uint16_t used, capacity, reserved, more;
	raddr_t local_free, thread_free;
	uint64_t block_bytes;
	uint64_t start;	  /* an address, or in the lower half the distance in words */
	uint64_t tail[8]; /* contains the page's memory (struct memory) */
};

_Static_assert(sizeof(struct page) == 120, "as in mimalloc");

/* The memory of a page: slices of an arena, or from the system. */
struct memory {
	uint64_t word[2];
	uint32_t kind, more;
};

static const uint8_t memory_at[MIMAP_FORMS] = {[MIMAP_START] = 5, [MIMAP_OFFSET] = 4};

/* Memory of the system (three kinds); of an arena. */
#define KIND_SYSTEM 4u
#define KIND_ARENA  7u

static raddr_t start_of(enum mimap_form form, raddr_t addr, const struct page *page)
{
	return form == MIMAP_START ? page->start : addr + (uint32_t)page->start * 8ull;
}

static bool is_size(uint64_t bytes)
{
	for (size_t i = 1; i < SIZES; i++)
		if (miheap_block_bytes(i) == bytes)
			return true;
	return false;
}

static bool is_counted(const struct page *page)
{
	return page->reserved && page->capacity <= page->reserved && page->used <= page->capacity &&
	       page->block_bytes && page->block_bytes % 8 == 0 && page->block_bytes <= HUGE_MAX &&
	       (page->reserved == 1 || is_size(page->block_bytes));
}

/* Do the words of the map agree with the page's blocks? */
static bool is_mapped(const struct mimap_run *run, const struct page *page, raddr_t start)
{
	uint64_t bytes = page->reserved * page->block_bytes;
	uint64_t slices = (bytes + MIWALK_SLICE_BYTES - 1) / MIWALK_SLICE_BYTES;
	raddr_t end = run->addr + run->slices * MIWALK_SLICE_BYTES;
	if (start % 8 || start < run->addr || start >= end || start - run->page < DESCRIPTION_MIN)
		return false;
	/* A page with several blocks has as many slices as its blocks take from the beginning of a
	 * slice. */
	if (page->reserved > 1)
		return slices == run->slices;
	/* In front of an aligned block, behind the page's description, there may be more slices. */
	uint64_t more = run->page % MIWALK_SLICE_BYTES == 0 && start > run->page
				? (start - run->page) / MIWALK_SLICE_BYTES
				: 0;
	if (bytes > AREA_MAX)
		slices = MIMAP_RUN_MAX;
	return run->slices >= slices && run->slices <= slices + more;
}

/* Is the page in the memory that its description names? The description is in front of the blocks,
 * or elsewhere. */
static bool is_memory(const struct mimap_run *run, const struct page *page, enum mimap_form form)
{
	struct memory memory;
	raddr_t start = start_of(form, run->page, page);
	raddr_t end = start + page->reserved * page->block_bytes;
	raddr_t slice = start & ~(raddr_t)(MIWALK_SLICE_BYTES - 1);
	memcpy(&memory, &page->tail[memory_at[form]], sizeof(memory));
	if (!memory.word[0] || memory.word[0] >= HUGE_MAX * 2)
		return false;
	if (memory.kind == KIND_ARENA) {
		uint64_t index = (uint32_t)memory.word[1], count = memory.word[1] >> 32;
		raddr_t addr = memory.word[0] + index * MIWALK_SLICE_BYTES;
		return index && (addr == slice || addr == run->page) &&
		       end <= addr + count * MIWALK_SLICE_BYTES;
	}
	return memory.kind >= KIND_SYSTEM && memory.kind < KIND_ARENA &&
	       memory.word[1] <= HUGE_MAX && memory.word[0] <= run->addr && run->addr <= start &&
	       end <= memory.word[0] + memory.word[1];
}

static bool take(const struct mimap_run *run, const struct page *page, enum mimap_form form,
	struct miwalk_page *ret)
{
	raddr_t start = start_of(form, run->page, page);
	if (!is_counted(page) || !is_mapped(run, page, start) || !is_memory(run, page, form))
		return false;
	*ret = (struct miwalk_page){.addr = run->addr,
		.start = start - run->addr,
		.block_bytes = page->block_bytes,
		.used = page->used,
		.list = page->thread_free & ~OWNED,
		.thread = page->thread & ~FLAGS};
	ret->bytes = ret->start + page->capacity * page->block_bytes;
	return ret->list % ALIGN_FREE == 0;
}

bool mipage_read(
	struct view *view, const struct mimap_run *run, unsigned *forms, struct miwalk_page *ret)
{
	struct page page;
	unsigned fit = 0;
	if (run->page % 8 || !view_read(view, run->page, &page, sizeof(page)))
		return false;
	for (unsigned i = 0; i < MIMAP_FORMS; i++)
		if ((*forms >> i & 1) && take(run, &page, i, ret))
			fit |= 1u << i;
	if (fit)
		*forms = fit;
	return fit;
}

/* Is the page unchanged? Reads it anew. */
static bool is_same(struct view *view, const struct mimap_run *run, unsigned forms,
	const struct miwalk_page *page)
{
	struct page now;
	struct miwalk_page again;
	if (view_read_data(view, run->page, &now, sizeof(now)) != sizeof(now))
		return false;
	for (unsigned i = 0; i < MIMAP_FORMS; i++)
		if ((forms >> i & 1) && take(run, &now, i, &again))
			return again.list == page->list && again.used == page->used &&
			       again.block_bytes == page->block_bytes;
	return false;
}

bool mipage_count_freed(struct view *view, uint64_t reserve, const struct mimap_run *run,
	unsigned forms, struct miwalk_page *page)
{
	return miwalk_count_freed(view, reserve, STARTS_TOLD, page) &&
	       (!page->list || page->unsure || is_same(view, run, forms, page));
}
