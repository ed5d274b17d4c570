/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jemalloc/emap.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"

#define ADDR_MAX	(1ull << 47)
#define CHUNK_BYTES	16384u /* of a node, per read */
#define NODE_ALIGN	64u
#define ADDRESS_BITS	48u /* of the pointer in a leaf's word, if the word is the whole entry */
#define EXTENTS_MAX	(1u << 20)
#define TRIED		256u /* entries that decide whether a node is part of a tree */
#define ODD_SHARE	8u   /* 1 in 8 entries may be changing just now */
#define ODD_LEFT	4u   /* tolerated: 4, and 1 in 64, that are inconsistent at every look */
#define ODD_LEFT_SHARE	64u
#define TRIES		3u
#define ARENAS_MAX	4095u
#define SLAB_BLOCKS_MAX 512u

/* Flags of a key, below the page's address. */
#define KEY_SLAB  0x100u
#define KEY_CLASS 0xffu
#define KEY_LARGE 0x200u

const struct emap_shape emap_shapes[EMAP_SHAPES] = {
	{2, {18, 18}, 8, 128, 17, 3, 20, 28, false},
	{2, {18, 18}, 8, 64, 16, 2, 18, 26, true},
	{3, {15, 15, 15}, 16, 128, 17, 3, 20, 28, false},
	{3, {15, 15, 15}, 16, 64, 16, 2, 18, 26, true},
};

/* Layout in memory, in all versions. */
struct edata {
	uint64_t bits;
	raddr_t addr;
	uint64_t size, more[5];
	uint64_t free[8]; /* of a slab: a bit for each block */
};

_Static_assert(sizeof(struct edata) == 128, "as in jemalloc");

enum verdict { VERDICT_ODD, VERDICT_IDLE, VERDICT_ACTIVE };

static unsigned edata_arena(const struct edata *edata)
{
	return edata->bits & 0xfff;
}

static bool edata_is_slab(const struct edata *edata)
{
	return edata->bits >> 12 & 1;
}

static unsigned edata_state(const struct emap_shape *shape, const struct edata *edata)
{
	return edata->bits >> shape->state_shift & ((1u << shape->state_bits) - 1);
}

static unsigned edata_class(const struct emap_shape *shape, const struct edata *edata)
{
	return edata->bits >> shape->class_shift & 0xff;
}

static unsigned edata_free(const struct emap_shape *shape, const struct edata *edata)
{
	return edata->bits >> shape->free_shift & 0x3ff;
}

static uint64_t edata_bytes(const struct edata *edata)
{
	return ht_align_down(edata->size, HT_PAGE_BYTES);
}

/* A large block begins somewhere in its first page. */
static raddr_t edata_page(const struct edata *edata)
{
	return ht_align_down(edata->addr, HT_PAGE_BYTES);
}

/* 8, 16, 32, 48, 64, then four sizes for each doubling. */
uint64_t emap_class_bytes(size_t class)
{
	if (class < 5)
		return class ? class * 16 : 8;
	uint64_t base = 64ull << (class - 5) / 4;
	return base + ((class - 5) % 4 + 1) * (base / 4);
}

/* --- the tree --- */

unsigned emap_page_bits(const struct emap_shape *shape, unsigned level)
{
	unsigned bits = 12;
	for (unsigned i = level + 1; i < shape->levels; i++)
		bits += shape->bits[i];
	return bits;
}

static unsigned entry_bytes(const struct emap_shape *shape, unsigned level)
{
	return level + 1 == shape->levels ? shape->leaf_bytes : sizeof(raddr_t);
}

uint64_t emap_node_bytes(const struct emap_shape *shape, unsigned level)
{
	return (uint64_t)entry_bytes(shape, level) << shape->bits[level];
}

struct walker {
	struct view *view;
	const struct emap_shape *shape;
	struct emap_walk *walk;
	size_t limit;
	bool failed; /* something was inconsistent */
};

static struct ht_err *add(struct walker *walker, const struct emap_extent *extent)
{
	struct emap_walk *walk = walker->walk;
	if (walk->count == EXTENTS_MAX) {
		walk->full = walker->failed = true;
		return NULL;
	}
	if (!ARRAY_HAS_ROOM(walk->extent, walk->count, walk->capacity, 1024))
		return ht_err_new(HT_ERR_NOMEM, "no memory for the extents of a heap");
	walk->extent[walk->count++] = *extent;
	return NULL;
}

bool emap_is_node(const struct view *view, raddr_t addr, uint64_t bytes)
{
	return addr % NODE_ALIGN == 0 && addr < ADDR_MAX && view_holds(view, addr) &&
	       view_holds(view, addr + bytes - 1);
}

/* Decodes an entry of a leaf, without its page. The entry of a page that was cleared has no
 * description (edata 0). */
static bool entry_take(const struct emap_shape *shape, const uint8_t *data, struct emap_extent *ret)
{
	/* Bits below the pointer: slab; since 5.3 also head and three bits of state. */
	const uint64_t flags = shape->is_old ? 1 : 31, low = shape->align - 1;
	uint64_t word, class, more = 0;
	memcpy(&word, data, sizeof(word));
	if (shape->leaf_bytes == sizeof(word)) {
		ret->edata = word & ((1ull << ADDRESS_BITS) - 1) & ~low;
		class = word >> ADDRESS_BITS;
		more = word & low;
	} else if (shape->is_old) {
		uint32_t size;
		memcpy(&size, data + sizeof(word), sizeof(size));
		ret->edata = word;
		class = size;
		more = data[sizeof(word) + sizeof(size)];
	} else {
		ret->edata = word;
		memcpy(&more, data + sizeof(word), sizeof(uint32_t));
		class = more >> 5;
		more &= flags;
	}
	ret->key = class | (more & 1 ? KEY_SLAB : 0);
	return class <= EMAP_CLASSES && more <= flags && ret->edata % shape->align == 0;
}

static bool is_last(const struct emap_walk *walk, raddr_t edata)
{
	return walk->count && walk->extent[walk->count - 1].edata == edata;
}

static struct ht_err *walk_node(
	struct walker *walker, unsigned level, raddr_t node, raddr_t prefix);

static struct ht_err *walk_entry(
	struct walker *walker, unsigned level, raddr_t at, const uint8_t *data, raddr_t prefix)
{
	const struct emap_shape *shape = walker->shape;
	raddr_t child;
	memcpy(&child, data, sizeof(child));
	if (!child)
		return NULL;
	if (level + 1 == shape->levels) {
		struct emap_extent extent;
		bool is_sane = entry_take(shape, data, &extent);
		/* Every page of a slab leads to the same extent. */
		if (is_sane && (!extent.edata || is_last(walker->walk, extent.edata)))
			return NULL;
		walker->failed |= !is_sane || !view_holds(walker->view, extent.edata);
		extent.key |= prefix;
		extent.word = at;
		return walker->failed ? NULL : add(walker, &extent);
	}
	walker->failed |= !emap_is_node(walker->view, child, emap_node_bytes(shape, level + 1));
	return walker->failed ? NULL : walk_node(walker, level + 1, child, prefix);
}

static struct ht_err *walk_node(struct walker *walker, unsigned level, raddr_t node, raddr_t prefix)
{
	uint8_t data[CHUNK_BYTES];
	const unsigned bytes_each = entry_bytes(walker->shape, level);
	const unsigned shift = emap_page_bits(walker->shape, level);
	raddr_t hi = node + emap_node_bytes(walker->shape, level), end;
	struct ht_err *err = NULL;
	for (raddr_t at = node; view_touched(walker->view, &at, hi, &end);) {
		size_t bytes = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		walker->failed |= view_read_data(walker->view, at, data, bytes) != bytes;
		for (size_t i = 0; i < bytes && !err; i += bytes_each) {
			if (walker->failed || walker->walk->count >= walker->limit)
				return NULL;
			raddr_t index = (at + i - node) / bytes_each;
			err = walk_entry(walker, level, at + i, data + i, prefix | index << shift);
		}
		if (err)
			return err;
		at += bytes;
	}
	walker->failed |= walker->view->spent || walker->view->err;
	return NULL;
}

/* --- extents --- */

static int compare(const void *a, const void *b)
{
	const struct emap_extent *first = a, *second = b;
	if (first->edata != second->edata)
		return first->edata < second->edata ? -1 : 1;
	return first->key < second->key ? -1 : first->key > second->key;
}

/* Keeps the first of several pages that lead to one extent. */
static void sort(struct emap_walk *walk)
{
	size_t count = 0;
	if (walk->count)
		qsort(walk->extent, walk->count, sizeof(*walk->extent), compare);
	for (size_t i = 0; i < walk->count; i++)
		if (!count || walk->extent[count - 1].edata != walk->extent[i].edata)
			walk->extent[count++] = walk->extent[i];
	walk->count = count;
}

static bool slab_held(const struct emap_shape *shape, const struct edata *edata, uint64_t *ret)
{
	unsigned class = edata_class(shape, edata), free = 0;
	uint64_t bytes = emap_class_bytes(class), count = edata_bytes(edata) / bytes;
	if (class >= EMAP_CLASSES_SMALL || count > SLAB_BLOCKS_MAX)
		return false;
	for (size_t i = 0; i * 64 < count; i++) {
		if (count < (i + 1) * 64 && edata->free[i] >> (count - i * 64))
			return false;
		free += (unsigned)__builtin_popcountll(edata->free[i]);
	}
	*ret = (count - free) * bytes;
	return free == edata_free(shape, edata);
}

/* The size of a large extent. It includes the extra page that the extent has if blocks may begin
 * anywhere in their first page: take_pages_off subtracts that. Small blocks that jemalloc's
 * profiler samples have an extent of their own, too. Since 5.3.1 a large block has any number of
 * pages up to that of its size class. */
static bool large_held(const struct emap_shape *shape, const struct edata *edata, uint64_t *ret)
{
	unsigned class = edata_class(shape, edata);
	uint64_t bytes = emap_class_bytes(class), all = edata_bytes(edata);
	*ret = class < EMAP_CLASSES_SMALL ? bytes : all;
	if (class < EMAP_CLASSES_SMALL)
		return bytes <= all;
	return all > emap_class_bytes(class - 1) && all <= bytes + HT_PAGE_BYTES;
}

static enum verdict judge(struct view *view, const struct emap_shape *shape,
	const struct emap_extent *extent, struct edata *edata, uint64_t *ret_held)
{
	*ret_held = 0;
	if (!view_read(view, extent->edata, edata, sizeof(*edata))) {
		*edata = (struct edata){0};
		return VERDICT_ODD;
	}
	raddr_t page = ht_align_down(extent->key, HT_PAGE_BYTES);
	uint64_t bytes = edata_bytes(edata);
	unsigned class = edata_class(shape, edata);
	if (edata_page(edata) != page || !bytes || bytes > ADDR_MAX - page ||
		edata_arena(edata) >= ARENAS_MAX || class > EMAP_CLASSES)
		return VERDICT_ODD;
	if (edata_state(shape, edata) != EMAP_ACTIVE || class == EMAP_CLASSES)
		return VERDICT_IDLE;
	if (class != (extent->key & KEY_CLASS) ||
		edata_is_slab(edata) != !!(extent->key & KEY_SLAB) || !view_holds(view, page) ||
		!view_holds(view, page + bytes - 1))
		return VERDICT_ODD;
	bool sane = edata_is_slab(edata) ? slab_held(shape, edata, ret_held)
					 : large_held(shape, edata, ret_held);
	return sane ? VERDICT_ACTIVE : VERDICT_ODD;
}

/* Does the leaf still have the extent, and with which flags? */
static bool look_again(
	struct view *view, const struct emap_shape *shape, struct emap_extent *extent)
{
	uint8_t data[16];
	struct emap_extent now;
	if (!view_read(view, extent->word, data, shape->leaf_bytes) ||
		!entry_take(shape, data, &now) || now.edata != extent->edata)
		return false;
	extent->key = ht_align_down(extent->key, HT_PAGE_BYTES) | now.key;
	return true;
}

static void count_in(struct emap_walk *walk, const struct emap_shape *shape,
	struct emap_extent *extent, const struct edata *edata, uint64_t held_bytes)
{
	unsigned arena = edata_arena(edata), class = edata_class(shape, edata);
	extent->held_bytes = held_bytes;
	walk->held_bytes += held_bytes;
	if (held_bytes && class >= EMAP_CLASSES_SMALL) {
		uint64_t class_bytes = emap_class_bytes(class);
		extent->key |= KEY_LARGE;
		walk->longer |= held_bytes > class_bytes || edata->addr % HT_PAGE_BYTES;
		walk->shorter += held_bytes < class_bytes;
	}
	unsigned state = edata_state(shape, edata);
	if (state < EMAP_STATES)
		walk->state_bytes[state] += edata_bytes(edata);
	if (state > EMAP_MUZZY)
		return;
	walk->system_bytes += edata_bytes(edata);
	walk->arenas += !(walk->arena_seen[arena / 64] >> arena % 64 & 1);
	walk->arena_seen[arena / 64] |= 1ull << arena % 64;
}

/* Subtracts the page that large extents have beyond their block: either all have one, or none. If
 * no extent shows it, a block that is shorter than its size class is uncertain by a page. */
static void take_pages_off(struct emap_walk *walk)
{
	if (!walk->longer)
		walk->odd_bytes += walk->shorter * HT_PAGE_BYTES;
	for (size_t i = 0; i < walk->count && walk->longer; i++) {
		struct emap_extent *extent = &walk->extent[i];
		if (!(extent->key & KEY_LARGE))
			continue;
		extent->held_bytes -= HT_PAGE_BYTES;
		walk->held_bytes -= HT_PAGE_BYTES;
		walk->valid &= extent->held_bytes > emap_class_bytes((extent->key & KEY_CLASS) - 1);
	}
}

/* An inconsistent extent is usually in the middle of a change: look again. */
static void judge_all(struct view *view, const struct emap_shape *shape, struct emap_walk *walk)
{
	const struct edata gone = {.bits = (uint64_t)EMAP_RETAINED << shape->state_shift};
	size_t odd = 0, odd_now = 0;
	for (size_t i = 0; i < walk->count; i++) {
		struct emap_extent *extent = &walk->extent[i];
		struct edata edata;
		uint64_t held_bytes;
		unsigned tries = 0;
		enum verdict verdict = judge(view, shape, extent, &edata, &held_bytes);
		odd += verdict == VERDICT_ODD;
		/* Do not look again if so many extents are inconsistent that this is no tree. */
		while (verdict == VERDICT_ODD && tries++ < TRIES && odd <= i / ODD_SHARE + 64) {
			view_forget(view);
			if (!look_again(view, shape, extent))
				verdict = VERDICT_IDLE, edata = gone;
			else
				verdict = judge(view, shape, extent, &edata, &held_bytes);
		}
		if (verdict != VERDICT_ODD) {
			count_in(walk, shape, extent, &edata, held_bytes);
			continue;
		}
		extent->held_bytes = 0;
		odd_now++;
		walk->odd_bytes += edata_bytes(&edata) < ADDR_MAX ? edata_bytes(&edata) : 0;
	}
	walk->valid &=
		odd_now <= ODD_LEFT + walk->count / ODD_LEFT_SHARE && !view->spent && !view->err;
}

struct ht_err *emap_walk(struct view *view, const struct emap *emap, struct emap_walk *ret)
{
	struct walker walker = {.view = view, .shape = emap->shape, .walk = ret, .limit = SIZE_MAX};
	*ret = (struct emap_walk){.extent = ret->extent, .capacity = ret->capacity};
	view_forget(view);
	struct ht_err *err = walk_node(&walker, 0, emap->root, 0);
	ret->valid = !err && !walker.failed && ret->count;
	if (!ret->valid)
		return err;
	sort(ret);
	judge_all(view, emap->shape, ret);
	take_pages_off(ret);
	return NULL;
}

void emap_walk_deinit(struct emap_walk *walk)
{
	free(walk->extent);
	*walk = (struct emap_walk){0};
}

uint64_t emap_moved_bytes(const struct emap_walk *before, const struct emap_walk *now)
{
	uint64_t moved = before->odd_bytes > now->odd_bytes ? before->odd_bytes : now->odd_bytes;
	size_t i = 0, j = 0;
	while (i < before->count || j < now->count) {
		const struct emap_extent *a = i < before->count ? &before->extent[i] : NULL;
		const struct emap_extent *b = j < now->count ? &now->extent[j] : NULL;
		bool is_first = a && (!b || compare(a, b) <= 0);
		bool is_second = b && (!a || compare(b, a) <= 0);
		uint64_t first = is_first ? a->held_bytes : 0;
		uint64_t second = is_second ? b->held_bytes : 0;
		moved += first > second ? first - second : second - first;
		i += is_first;
		j += is_second;
	}
	return moved;
}

/* Returns which entry of the root leads to this node: the one that most extents below the node have
 * in their addresses. */
static uint64_t index_of(struct view *view, const struct emap_shape *shape, struct emap_walk *walk)
{
	const unsigned shift = emap_page_bits(shape, 0);
	uint64_t index = UINT64_MAX;
	size_t votes = 0;
	for (size_t i = 0; i < walk->count; i++) {
		raddr_t page = ht_align_down(walk->extent[i].key, HT_PAGE_BYTES);
		struct edata edata;
		if (!view_read(view, walk->extent[i].edata, &edata, sizeof(edata)) ||
			(edata_page(&edata) ^ page) & ((1ull << shift) - 1))
			continue;
		if (!votes)
			index = edata.addr >> shift;
		votes += index == edata.addr >> shift ? 1 : -1;
	}
	return index;
}

/* Is this entry that of an extent's last page, where the extent begins under another entry of the
 * root? */
static bool is_tail(
	const struct emap_shape *shape, const struct emap_extent *extent, const struct edata *edata)
{
	raddr_t page = ht_align_down(extent->key, HT_PAGE_BYTES);
	const unsigned shift = emap_page_bits(shape, 0);
	return edata_page(edata) >> shift < page >> shift &&
	       edata_page(edata) + edata_bytes(edata) == page + HT_PAGE_BYTES;
}

struct ht_err *emap_try(struct view *view, const struct emap_shape *shape, raddr_t node,
	struct emap_walk *walk, uint64_t *ret_index, bool *ret_is)
{
	struct walker walker = {.view = view, .shape = shape, .walk = walk, .limit = TRIED};
	size_t odd = 0, active = 0;
	*ret_is = false;
	walk->count = 0;
	struct ht_err *err = walk_node(&walker, 1, node, 0);
	if (err || walker.failed || !walk->count)
		return err;
	sort(walk);
	uint64_t index = index_of(view, shape, walk);
	if (index >> shape->bits[0])
		return NULL;
	for (size_t i = 0; i < walk->count; i++) {
		struct emap_extent *extent = &walk->extent[i];
		struct edata edata;
		uint64_t held_bytes;
		extent->key += index << emap_page_bits(shape, 0);
		enum verdict verdict = judge(view, shape, extent, &edata, &held_bytes);
		/* An idle extent has no size class; read in the layout of another version, it would
		 * have one. */
		bool agrees = verdict != VERDICT_IDLE || edata_class(shape, &edata) == EMAP_CLASSES;
		odd += (verdict == VERDICT_ODD || !agrees) && !is_tail(shape, extent, &edata);
		active += verdict == VERDICT_ACTIVE;
	}
	*ret_index = index;
	*ret_is = active && odd <= walk->count / ODD_SHARE;
	return NULL;
}
