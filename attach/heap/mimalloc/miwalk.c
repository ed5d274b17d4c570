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
