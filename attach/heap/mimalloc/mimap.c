/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/mimalloc/mimap.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/view/variables.h"
#include "format/array.h"

#define SUB_ENTRIES    8192u
#define SUB_BYTES      (SUB_ENTRIES * sizeof(raddr_t))
#define ROOT_BYTES_MIN HT_PAGE_BYTES
#define ROOT_BYTES_MAX (4u << 20) /* for addresses of 48 bits; usually 2 MiB */
#define CHUNK_BYTES    16384u	  /* in one read */
#define TRIED	       64u	  /* pages that decide whether a map is mimalloc's */
#define TRIED_SHARE    8u	  /* 1 in 8 may be changing just now */
#define TRIES	       3u
#define ODD_LEFT       4u /* tolerated: 4, and 1 in 64, that are inconsistent at every look */
#define ODD_LEFT_SHARE 64u
#define LISTS_SHARE    2u /* of the budget of a walk */
#define THREADS_MAX    1024u

struct walker {
	struct view *view;
	struct miwalk *walk;
	unsigned forms;
	uint64_t reserve; /* part of the budget that lists must not use */
	size_t limit, odd;
	struct mimap_run run; /* the last run of words, which may continue */
	raddr_t thread[THREADS_MAX];
	bool failed;
};

/* --- pages --- */

static void add_thread(struct walker *walker, raddr_t thread)
{
	struct miwalk *walk = walker->walk;
	if (thread && walk->heap_count < THREADS_MAX &&
		!array_has_word(walker->thread, walk->heap_count, thread))
		walker->thread[walk->heap_count++] = thread;
}

static struct ht_err *take_page(struct walker *walker, const struct miwalk_page *page)
{
	struct miwalk *walk = walker->walk;
	const struct mimap_run *run = &walker->run;
	uint64_t slices = run->slices * MIWALK_SLICE_BYTES;
	if (page->unsure)
		walk->unsure_bytes += page->used * page->block_bytes;
	walk->held_bytes += (page->used - page->freed) * page->block_bytes;
	walk->system_bytes += page->bytes > slices ? page->bytes : slices;
	add_thread(walker, page->thread);
	return miwalk_add(walk, page);
}

/* Does the map still have the page, and in how many words? Another page may have replaced it. */
static bool look_again(struct walker *walker)
{
	struct mimap_run *run = &walker->run;
	raddr_t page, at = run->word;
	uint64_t slices = 0;
	while (at < run->word_end && view_read(walker->view, at, &page, sizeof(page)) &&
		page == run->page) {
		slices++;
		at += sizeof(page);
	}
	/* The run continues in another part of the map. */
	if (at == run->word_end && slices < run->slices)
		return true;
	if (slices)
		run->slices = slices;
	return slices != 0;
}

/* An inconsistent page is usually in the middle of a change: look again. */
static struct ht_err *end_run(struct walker *walker)
{
	struct view *view = walker->view;
	struct mimap_run *run = &walker->run;
	struct miwalk_page page = {0};
	bool is_read = false, is_sure = false;
	/* Some versions have a variable as the page for no address. */
	if (!run->slices || !run->addr || walker->walk->count + walker->odd >= walker->limit)
		return NULL;
	for (unsigned i = 0; i <= TRIES && !is_sure && !view->spent && !view->err; i++) {
		if (i)
			view_forget(view);
		if (i && !look_again(walker))
			return NULL;
		is_read = mipage_read(view, run, &walker->forms, &page);
		is_sure = is_read &&
			  mipage_count_freed(view, walker->reserve, run, walker->forms, &page);
		/* Do not look again before this is known to be a map. */
		if (!is_read && walker->limit != SIZE_MAX)
			break;
	}
	if (is_sure)
		return take_page(walker, &page);
	walker->odd++;
	page.freed = 0;
	if (is_read) {
		walker->walk->odd_bytes += page.used * page.block_bytes;
		return take_page(walker, &page);
	}
	/* The size of a large block is unknown, as only its first words are in the map. */
	walker->failed |= walker->limit == SIZE_MAX && run->slices >= MIMAP_RUN_MAX;
	walker->walk->odd_bytes += run->slices * MIWALK_SLICE_BYTES;
	return NULL;
}

/* --- the map --- */

static struct ht_err *add_word(
	struct walker *walker, raddr_t at, raddr_t end, raddr_t page, raddr_t addr)
{
	struct mimap_run *run = &walker->run;
	struct ht_err *err = NULL;
	if (run->slices && page == run->page &&
		addr == run->addr + run->slices * MIWALK_SLICE_BYTES) {
		run->slices++;
		return NULL;
	}
	err = end_run(walker);
	*run = (struct mimap_run){at, end, page, addr, page != 0};
	return err;
}

static bool is_done(const struct walker *walker)
{
	return walker->failed || walker->view->spent || walker->view->err || walker->walk->full ||
	       walker->walk->count + walker->odd >= walker->limit;
}

static struct ht_err *walk_sub(struct walker *walker, raddr_t sub, raddr_t base);

/* Walks the words of one level from `lo` to `hi`. `base`: where the addresses of the level begin;
 * each word of the root stands for those of a part, each of a part for those of a slice. */
static struct ht_err *walk_level(
	struct walker *walker, raddr_t lo, raddr_t hi, raddr_t base, bool is_root)
{
	uint8_t data[CHUNK_BYTES];
	struct ht_err *err = NULL;
	raddr_t end;
	for (raddr_t at = lo; !err && view_touched(walker->view, &at, hi, &end);) {
		size_t bytes = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		walker->failed |= view_read_data(walker->view, at, data, bytes) != bytes;
		for (size_t i = 0; i + sizeof(raddr_t) <= bytes && !err; i += sizeof(raddr_t)) {
			raddr_t word, index = (at + i - lo) / sizeof(raddr_t);
			if (is_done(walker))
				return NULL;
			memcpy(&word, data + i, sizeof(word));
			if (is_root && word)
				err = walk_sub(
					walker, word, index * SUB_ENTRIES * MIWALK_SLICE_BYTES);
			else if (!is_root && (word || walker->run.slices))
				err = add_word(walker, at + i, hi, word,
					base + index * MIWALK_SLICE_BYTES);
		}
		at += bytes;
	}
	return err;
}

static struct ht_err *walk_sub(struct walker *walker, raddr_t sub, raddr_t base)
{
	walker->failed |= sub % sizeof(raddr_t) || !view_holds(walker->view, sub) ||
			  !view_holds(walker->view, sub + SUB_BYTES - 1);
	return walker->failed ? NULL : walk_level(walker, sub, sub + SUB_BYTES, base, false);
}

static struct ht_err *walk(struct walker *walker, struct view *view, const struct mimap *map,
	size_t limit, struct miwalk *ret)
{
	*ret = (struct miwalk){.page = ret->page, .capacity = ret->capacity, .heap = ret->heap};
	walker->view = view;
	walker->walk = ret;
	walker->forms = map->forms;
	walker->reserve = view->left / LISTS_SHARE;
	walker->limit = limit;
	view_forget(view);
	HT_TRY(walk_level(walker, map->root, map->root + map->entries * sizeof(raddr_t), 0, true));
	return is_done(walker) ? NULL : end_run(walker);
}

struct ht_err *mimap_walk(struct view *view, const struct mimap *map, struct miwalk *ret)
{
	HT_FREED struct walker *walker = calloc(1, sizeof(*walker));
	if (!walker)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the pages of a heap");
	struct ht_err *err = walk(walker, view, map, SIZE_MAX, ret);
	ret->valid = !err && !ret->full && !walker->failed && !view->spent && !view->err &&
		     walker->odd <= ODD_LEFT + ret->count / ODD_LEFT_SHARE;
	return err;
}

/* --- finding the map --- */

/* The part for the lowest addresses follows the root. */
static bool is_root(struct view *view, raddr_t addr, uint64_t *ret_entries)
{
	raddr_t sub;
	if (addr % HT_PAGE_BYTES || !view_holds(view, addr) ||
		!view_read(view, addr, &sub, sizeof(sub)))
		return false;
	uint64_t bytes = sub - addr;
	*ret_entries = bytes / sizeof(raddr_t);
	return sub > addr && bytes >= ROOT_BYTES_MIN && bytes <= ROOT_BYTES_MAX &&
	       !(bytes & (bytes - 1)) && view_holds(view, sub + SUB_BYTES - 1);
}

struct search {
	struct view *view;
	raddr_t lo, hi; /* of the variables */
	struct walker walker;
	struct miwalk *walk;
	struct mimap *found;
	size_t count;
};

static struct ht_err *search_word(struct search *search, raddr_t word)
{
	struct view *view = search->view;
	struct walker *walker = &search->walker;
	struct mimap map = {.root = word, .forms = (1u << MIMAP_FORMS) - 1};
	if ((search->count && word == search->found->root) || !is_root(view, word, &map.entries))
		return NULL;
	*walker = (struct walker){0};
	struct ht_err *err = walk(walker, view, &map, TRIED, search->walk);
	size_t count = search->walk->count;
	if (err || walker->failed || !count || walker->odd > count / TRIED_SHARE + 1)
		return err;
	map.forms = walker->forms;
	*search->found = map;
	search->count++;
	return NULL;
}

static struct ht_err *search_piece(void *context, raddr_t addr, const uint8_t *data, size_t bytes)
{
	struct search *search = context;
	struct ht_err *err = NULL;
	(void)addr;
	for (size_t i = 0; i + sizeof(raddr_t) <= bytes && !err && !search->view->spent;
		i += sizeof(raddr_t)) {
		raddr_t word;
		memcpy(&word, data + i, sizeof(word));
		if (word && word % HT_PAGE_BYTES == 0 && (word < search->lo || word >= search->hi))
			err = search_word(search, word);
	}
	return err;
}

struct ht_err *mimap_find(struct view *view, const struct module *module, struct miwalk *walk_of,
	struct mimap *ret, size_t *ret_count)
{
	HT_FREED struct search *search = calloc(1, sizeof(*search));
	struct ht_err *err = NULL;
	if (!search)
		return ht_err_new(HT_ERR_NOMEM, "no memory to search for the pages of a heap");
	*search = (struct search){.view = view, .walk = walk_of, .found = ret};
	if (variables_span(module, &search->lo, &search->hi))
		err = variables_each(view, search->lo, search->hi, search_piece, search);
	*ret_count = search->count;
	return err;
}
