/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jemalloc/emap_find.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/view/variables.h"
#include "attach/memory/proc_map.h"
#include "format/array.h"

#define ROOT_BITS_MAX 18u
#define PLACES_MAX    4096u
#define MAP_MAX	      (1ull << 40) /* larger mappings are no heap */
#define FITS_EACH     256u	   /* so many comparisons cost as much as one look */
#define UNKNOWN_MAX   4u	   /* entries of the root for addresses that were given back */

/* Entries of the root that may be in use: those for mapped addresses. */
struct places {
	uint64_t bit[(1u << ROOT_BITS_MAX) / 64];
	uint32_t index[PLACES_MAX];
	size_t count; /* PLACES_MAX: there are more */
};

/* The nonzero words of one page. */
struct words {
	raddr_t addr;
	raddr_t word[HT_PAGE_BYTES / sizeof(raddr_t)];
	uint16_t index[HT_PAGE_BYTES / sizeof(raddr_t)];
	size_t count;
};

struct search {
	struct view *view;
	raddr_t lo, hi; /* of the variables */
	struct places place[EMAP_SHAPES];
	struct words words;
	struct emap found;
	size_t count;
	uint64_t fits;	       /* comparisons */
	struct emap_walk walk; /* for trying candidates */
};

static bool is_found(const struct search *search, raddr_t at)
{
	return search->count && at >= search->found.root &&
	       at - search->found.root < emap_node_bytes(search->found.shape, 0);
}

static void places_find(const struct view *view, const struct emap_shape *shape, struct places *ret)
{
	unsigned shift = emap_page_bits(shape, 0);
	for (size_t i = 0; i < view->maps.count; i++) {
		const struct proc_map *map = &view->maps.map[i];
		uint64_t end = (map->hi - 1) >> shift;
		if (!view_holds(view, map->lo) || map->hi - map->lo > MAP_MAX ||
			end >> shape->bits[0])
			continue;
		for (uint64_t k = map->lo >> shift; k <= end && ret->count < PLACES_MAX; k++) {
			if (!(ret->bit[k / 64] >> k % 64 & 1))
				ret->index[ret->count++] = (uint32_t)k;
			ret->bit[k / 64] |= 1ull << k % 64;
		}
	}
}

/* If the word at `at` is entry `index` of the root, do its neighbours fit, too? */
static bool fits(const struct search *search, const struct emap_shape *shape,
	const struct places *places, raddr_t at, uint64_t index)
{
	const struct words *words = &search->words;
	raddr_t root = at - index * sizeof(raddr_t), hi = root + emap_node_bytes(shape, 0);
	size_t known = 0, unknown = 0;
	if (root < search->lo || root > at || hi > search->hi)
		return false;
	for (size_t i = 0; i < words->count && unknown <= known + UNKNOWN_MAX; i++) {
		raddr_t other = words->addr + words->index[i] * sizeof(raddr_t);
		if (other < root || other >= hi)
			continue;
		uint64_t k = (other - root) / sizeof(raddr_t);
		bool is_known = places->bit[k / 64] >> k % 64 & 1;
		known += is_known;
		unknown += !is_known;
	}
	return unknown <= known + UNKNOWN_MAX;
}

/* Is `at` likely to be a root's entry? Programs have arrays of pointers, and a read behind each
 * pointer would cost too much. */
static bool is_likely(struct search *search, size_t shape, raddr_t at)
{
	const struct places *places = &search->place[shape];
	for (size_t i = 0; i < places->count; i++) {
		if (++search->fits % FITS_EACH == 0 && !view_spend(search->view, VIEW_LOOK_COST))
			return false;
		if (fits(search, &emap_shapes[shape], places, at, places->index[i]))
			return true;
	}
	return places->count == PLACES_MAX;
}

/* The addresses of the extents below the node tell where the root begins. */
static struct ht_err *search_node(
	struct search *search, const struct emap_shape *shape, raddr_t at, raddr_t node)
{
	uint64_t index = 0;
	bool is = false;
	struct ht_err *err = emap_try(search->view, shape, node, &search->walk, &index, &is);
	raddr_t root = at - index * sizeof(raddr_t);
	if (err || !is || root < search->lo || root > at ||
		search->hi - root < emap_node_bytes(shape, 0))
		return err;
	search->found = (struct emap){root, shape};
	search->count++;
	return NULL;
}

static struct ht_err *search_word(struct search *search, raddr_t at, raddr_t word)
{
	struct ht_err *err = NULL;
	bool likely = false;
	for (size_t i = 0; i < EMAP_SHAPES && !err && !is_found(search, at); i++) {
		const struct emap_shape *shape = &emap_shapes[i];
		/* A variant with as many levels as the one before has the same tree: do not test it
		 * twice. */
		if (!i || shape->levels != emap_shapes[i - 1].levels)
			likely = search->hi - search->lo >= emap_node_bytes(shape, 0) &&
				 emap_is_node(search->view, word, emap_node_bytes(shape, 1)) &&
				 is_likely(search, i, at);
		if (likely)
			err = search_node(search, shape, at, word);
	}
	return err;
}

static struct ht_err *search_page(
	struct search *search, raddr_t addr, const uint8_t *data, size_t bytes)
{
	struct words *words = &search->words;
	struct ht_err *err = NULL;
	words->addr = addr;
	words->count = 0;
	for (size_t i = 0; i < bytes / sizeof(raddr_t); i++) {
		raddr_t word;
		memcpy(&word, data + i * sizeof(word), sizeof(word));
		if (!word)
			continue;
		words->word[words->count] = word;
		words->index[words->count++] = (uint16_t)i;
	}
	for (size_t i = 0; i < words->count && !err && !search->view->spent; i++) {
		raddr_t word = words->word[i];
		if (word < search->lo || word >= search->hi)
			err = search_word(search, addr + words->index[i] * sizeof(raddr_t), word);
	}
	return err;
}

static struct ht_err *search_piece(void *context, raddr_t addr, const uint8_t *data, size_t bytes)
{
	struct search *search = context;
	for (size_t i = 0; i < bytes && !search->view->spent; i += HT_PAGE_BYTES)
		HT_TRY(search_page(search, addr + i, data + i,
			bytes - i < HT_PAGE_BYTES ? bytes - i : HT_PAGE_BYTES));
	return NULL;
}

struct ht_err *emap_find(
	struct view *view, const struct module *module, struct emap *ret, size_t *ret_count)
{
	HT_FREED struct search *search = calloc(1, sizeof(*search));
	struct ht_err *err = NULL;
	if (!search)
		return ht_err_new(HT_ERR_NOMEM, "no memory to search for the map of a heap");
	search->view = view;
	for (size_t i = 0; i < EMAP_SHAPES; i++)
		places_find(view, &emap_shapes[i], &search->place[i]);
	if (variables_span(module, &search->lo, &search->hi))
		err = variables_each(view, search->lo, search->hi, search_piece, search);
	*ret = search->found;
	*ret_count = search->count;
	emap_walk_deinit(&search->walk);
	return err;
}
