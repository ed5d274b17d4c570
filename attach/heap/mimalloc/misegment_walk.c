/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/misegment_walk.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/view/account.h"
#include "attach/memory/proc_map.h"
#include "format/array.h"

#define MAP_MAX	       (1ull << 40) /* larger mappings belong to something else */
#define HEAPS_MAX      4096u
#define SEGMENT_BYTES  (32ull << 20)
#define TRIES	       3u
#define ODD_LEFT       4u /* tolerated: 4, and 1 in 64, that are inconsistent at every look */
#define ODD_LEFT_SHARE 64u
#define LISTS_SHARE    2u /* of the budget of a walk */

struct walker {
	struct view *view;
	const struct miheap *first;
	const struct threads *threads;
	struct miwalk *walk;
	unsigned builds;  /* that fit all pages so far */
	uint64_t reserve; /* part of the budget that lists must not use */
	size_t odd;
	bool lost; /* the size of a segment is unknown */
	struct misegment segment, again;
};

/* --- lists of blocks --- */

static bool lists_walk(
	struct view *view, uint64_t reserve, struct misegment *segment, bool *ret_any)
{
	bool sane = true;
	*ret_any = false;
	for (size_t i = 0; i < segment->count; i++) {
		if (!segment->page[i].list)
			continue;
		*ret_any = true;
		if (!miwalk_count_freed(view, reserve, segment->builds, &segment->page[i])) {
			segment->page[i].freed = UINT32_MAX;
			sane = false;
		}
	}
	return sane;
}

/* --- segments --- */

static bool is_same(const struct miwalk_page *a, const struct miwalk_page *b)
{
	return a->addr == b->addr && a->block_bytes == b->block_bytes && a->used == b->used &&
	       a->list == b->list;
}

/* A list that changed during the walk has an unknown length: read the segment a second time and
 * compare. */
static bool confirm(struct walker *walker, raddr_t addr)
{
	struct misegment *segment = &walker->segment, *again = &walker->again;
	bool same = true;
	view_forget(walker->view);
	if (!misegment_read(walker->view, addr, walker->first->cookie, walker->builds, again))
		again->count = 0;
	for (size_t i = 0, j = 0; i < segment->count; i++) {
		struct miwalk_page *page = &segment->page[i];
		while (j < again->count && again->page[j].addr < page->addr)
			j++;
		if (!page->list || (j < again->count && is_same(page, &again->page[j])))
			continue;
		page->freed = UINT32_MAX;
		same = false;
	}
	return same;
}

static struct ht_err *take_segment(struct walker *walker)
{
	struct misegment *segment = &walker->segment;
	for (size_t i = 0; i < segment->count; i++) {
		struct miwalk_page *page = &segment->page[i];
		if (page->freed == UINT32_MAX) {
			walker->walk->odd_bytes += page->used * page->block_bytes;
			walker->odd++;
			page->freed = 0;
		}
		if (page->unsure)
			walker->walk->unsure_bytes += page->used * page->block_bytes;
		HT_TRY(miwalk_add(walker->walk, page));
	}
	walker->builds = segment->builds;
	walker->walk->segments++;
	walker->walk->system_bytes += segment->system_bytes;
	return NULL;
}

/* An inconsistent segment is usually in the middle of a change: look again. */
static struct ht_err *walk_segment(struct walker *walker, raddr_t addr)
{
	struct view *view = walker->view;
	struct misegment *segment = &walker->segment;
	bool is_read = false, is_sure = false;
	for (unsigned i = 0; i <= TRIES && !is_sure && !view->spent && !view->err; i++) {
		bool any;
		if (i)
			view_forget(view);
		/* The segment may have been given back. */
		if (i && !misegment_is(view, addr, walker->first->cookie, walker->builds))
			return NULL;
		is_read =
			misegment_read(view, addr, walker->first->cookie, walker->builds, segment);
		is_sure = is_read && lists_walk(view, walker->reserve, segment, &any);
		if (is_read && any)
			is_sure &= confirm(walker, addr);
	}
	if (is_read)
		return take_segment(walker);
	walker->odd++;
	walker->lost |= !segment->system_bytes;
	walker->walk->odd_bytes += segment->system_bytes;
	return NULL;
}

static struct ht_err *walk_segments(struct walker *walker)
{
	struct view *view = walker->view;
	for (size_t i = 0; i < view->maps.count; i++) {
		const struct proc_map *map = &view->maps.map[i];
		raddr_t at = (map->lo + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
		if (!view_holds(view, map->lo) || map->hi - map->lo > MAP_MAX)
			continue;
		for (; at < map->hi && !view->spent && !view->err && !walker->walk->full;
			at += SEGMENT_BYTES)
			if (misegment_is(view, at, walker->first->cookie, walker->builds))
				HT_TRY(walk_segment(walker, at));
	}
	return NULL;
}

/* --- heaps --- */

static struct miwalk_heap *heap_place(struct miwalk *walk, raddr_t addr, bool *ret_is)
{
	size_t at = array_from(walk->heap, walk->heap_count, sizeof(*walk->heap), addr);
	*ret_is = at < walk->heap_count && walk->heap[at].heap.addr == addr;
	return &walk->heap[at];
}

static void add_heap(struct miwalk *walk, raddr_t addr, uint64_t pages, uint64_t bytes)
{
	bool is;
	struct miwalk_heap *at = heap_place(walk, addr, &is);
	if (is) {
		at->pages += pages;
		at->bytes += bytes;
		return;
	}
	if (walk->heap_count == HEAPS_MAX) {
		walk->full = true;
		return;
	}
	memmove(at + 1, at, (size_t)(walk->heap + walk->heap_count - at) * sizeof(*at));
	*at = (struct miwalk_heap){.heap.addr = addr, .pages = pages, .bytes = bytes};
	walk->heap_count++;
}

static struct miwalk_page *page_of(const struct miwalk *walk, raddr_t addr)
{
	size_t behind = array_from(walk->page, walk->count, sizeof(*walk->page), addr + 1);
	return behind ? &walk->page[behind - 1] : NULL;
}

/* Counts the freed blocks of full pages that wait in the heap's list. Blocks that are freed later
 * go to the list of their page. */
static bool delayed_walk(struct walker *walker, const struct miheap *heap, bool *ret_unsure)
{
	raddr_t at = heap->delayed;
	while (at) {
		*ret_unsure = walker->view->left < walker->reserve / LISTS_SHARE;
		if (*ret_unsure)
			return true;
		struct miwalk_page *page = page_of(walker->walk, at);
		if (!page || page->heap != heap->addr || page->freed >= page->used ||
			!miwalk_is_block(page, walker->builds, at) ||
			!view_read(walker->view, at, &at, sizeof(at)))
			return false;
		page->freed++;
	}
	return true;
}

static void walk_heap(struct walker *walker, struct miwalk_heap *at)
{
	struct miwalk *walk = walker->walk;
	struct miheap heap;
	raddr_t addr = at->heap.addr;
	bool sane = false, unsure = false;
	for (unsigned i = 0; i <= TRIES && !sane && !walker->view->spent; i++) {
		if (i)
			view_forget(walker->view);
		sane = miheap_read(
			walker->view, addr, addr == walker->first->addr, walker->builds, &heap);
	}
	if (sane) {
		at->heap = heap;
		walk->missing += account_distance(heap.pages, at->pages);
		sane = delayed_walk(walker, &heap, &unsure);
	}
	if (unsure)
		walk->unsure_bytes += at->bytes;
	if (sane)
		return;
	walker->odd++;
	walk->odd_bytes += at->bytes;
}

static void walk_heaps(struct walker *walker)
{
	struct miwalk *walk = walker->walk;
	add_heap(walk, walker->first->addr, 0, 0);
	for (size_t i = 0; i < walk->count; i++) {
		const struct miwalk_page *page = &walk->page[i];
		if (page->heap)
			add_heap(walk, page->heap, 1, page->used * page->block_bytes);
	}
	view_forget(walker->view);
	for (size_t i = 0; i < walk->heap_count && !walker->view->spent; i++)
		walk_heap(walker, &walk->heap[i]);
}

/* Returns the distance from a thread's control block back to the variable that points at its heap;
 * 0: unknown. The stack, which is further away, may hold that pointer, too. */
static uint64_t heap_distance(const struct walker *walker)
{
	uint8_t data[THREADS_VARIABLES_BYTES];
	const struct threads *threads = walker->threads;
	for (size_t i = 0; i < threads->count; i++) {
		size_t bytes = threads_variables(walker->view, threads, i, data);
		for (size_t back = sizeof(raddr_t); back <= bytes; back += sizeof(raddr_t)) {
			raddr_t word;
			bool is;
			memcpy(&word, data + bytes - back, sizeof(word));
			const struct miwalk_heap *heap = heap_place(walker->walk, word, &is);
			if (is && heap->heap.thread == threads->block[i])
				return back;
		}
	}
	return 0;
}

/* Counts as missing the pages of heaps none of whose pages was found. */
static void walk_threads(struct walker *walker)
{
	struct view *view = walker->view;
	uint64_t distance = heap_distance(walker);
	for (size_t i = 0; i < walker->threads->count && distance && !view->spent; i++) {
		raddr_t block = walker->threads->block[i], addr;
		struct miheap heap;
		bool is;
		if (!view_read(view, block - distance, &addr, sizeof(addr)))
			continue;
		(void)heap_place(walker->walk, addr, &is);
		if (!is && miheap_read(view, addr, false, walker->builds, &heap) &&
			heap.thread == block)
			walker->walk->missing += heap.pages;
	}
}

/* Counts what is handed out. A page belongs to the thread of its segment. */
static void count(struct walker *walker)
{
	struct miwalk *walk = walker->walk;
	for (size_t i = 0; i < walk->count; i++) {
		const struct miwalk_page *page = &walk->page[i];
		bool is = false;
		uint64_t bytes = (page->used - page->freed) * page->block_bytes;
		walk->held_bytes += bytes;
		if (!page->heap || !page->thread)
			continue;
		const struct miwalk_heap *heap = heap_place(walk, page->heap, &is);
		if (is && heap->heap.thread == page->thread)
			continue;
		walker->odd++;
		walk->odd_bytes += bytes;
	}
}

struct ht_err *misegment_walk(struct view *view, const struct miheap *first,
	const struct threads *threads, struct miwalk *ret)
{
	*ret = (struct miwalk){.page = ret->page, .capacity = ret->capacity, .heap = ret->heap};
	if (!ret->heap)
		ret->heap = calloc(HEAPS_MAX, sizeof(*ret->heap));
	HT_FREED struct walker *walker = calloc(1, sizeof(*walker));
	if (!walker || !ret->heap)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the segments of a heap");
	walker->view = view;
	walker->first = first;
	walker->threads = threads;
	walker->walk = ret;
	walker->builds = first->builds;
	walker->reserve = view->left / LISTS_SHARE;
	view_forget(view);
	struct ht_err *err = walk_segments(walker);
	if (!err && !ret->full) {
		walk_heaps(walker);
		walk_threads(walker);
	}
	count(walker);
	ret->valid = !err && !ret->full && !walker->lost && !view->spent && !view->err &&
		     walker->odd <= ODD_LEFT + ret->count / ODD_LEFT_SHARE;
	return err;
}
