/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/miwalk.h"

#include <stdlib.h>

#include "attach/heap/view/account.h"
#include "format/array.h"

#define PAGES_MAX (1u << 20)

struct ht_err *miwalk_add(struct miwalk *walk, const struct miwalk_page *page)
{
	if (walk->count == PAGES_MAX) {
		walk->full = true;
		return NULL;
	}
	if (!ARRAY_HAS_ROOM(walk->page, walk->count, walk->capacity, 1024))
		return ht_err_new(HT_ERR_NOMEM, "no memory for the pages of a heap");
	walk->page[walk->count++] = *page;
	return NULL;
}

uint64_t miwalk_start(enum mibuild build, const struct miwalk_page *page)
{
	if (build >= MIBUILD_2_1_4)
		return page->start;
	if (build == MIBUILD_2_0_9)
		return page->block_bytes <= 1024 ? 384 : 0;
	if (page->block_bytes <= 64)
		return 3 * page->block_bytes;
	return page->block_bytes <= 512 ? page->block_bytes : 0;
}

bool miwalk_is_block(const struct miwalk_page *page, unsigned builds, raddr_t addr)
{
	bool is = false;
	for (unsigned i = 0; i < MIBUILDS; i++) {
		raddr_t start = page->addr + miwalk_start(i, page);
		is |= (builds >> i & 1) && addr >= start && addr < page->addr + page->bytes &&
		      (addr - start) % page->block_bytes == 0;
	}
	return is;
}

/* A list that is longer than the number of blocks handed out is no list. */
bool miwalk_count_freed(
	struct view *view, uint64_t reserve, unsigned builds, struct miwalk_page *page)
{
	raddr_t at = page->list;
	page->freed = 0;
	while (at) {
		if (view->left < reserve) {
			page->freed = 0;
			page->unsure = true;
			return true;
		}
		if (page->freed == page->used || !miwalk_is_block(page, builds, at) ||
			!view_read(view, at, &at, sizeof(at)))
			return false;
		page->freed++;
	}
	return true;
}

void miwalk_deinit(struct miwalk *walk)
{
	free(walk->page);
	free(walk->heap);
	*walk = (struct miwalk){0};
}

static uint64_t page_held(const struct miwalk_page *page)
{
	return (page->used - page->freed) * page->block_bytes;
}

uint64_t miwalk_moved_bytes(const struct miwalk *before, const struct miwalk *now)
{
	uint64_t moved = before->odd_bytes > now->odd_bytes ? before->odd_bytes : now->odd_bytes;
	size_t i = 0, j = 0;
	while (i < before->count || j < now->count) {
		const struct miwalk_page *a = i < before->count ? &before->page[i] : NULL;
		const struct miwalk_page *b = j < now->count ? &now->page[j] : NULL;
		bool is_first = a && (!b || a->addr <= b->addr);
		bool is_second = b && (!a || b->addr <= a->addr);
		uint64_t first = is_first ? page_held(a) : 0;
		uint64_t second = is_second ? page_held(b) : 0;
		/* The bytes of unsure pages are in unsure_bytes already. */
		if ((is_first && a->unsure) || (is_second && b->unsure))
			first = second = 0;
		/* The same bytes in blocks of another size are other blocks. */
		moved += is_first && is_second && a->block_bytes != b->block_bytes
				 ? first + second
				 : account_distance(first, second);
		i += is_first;
		j += is_second;
	}
	return moved;
}
