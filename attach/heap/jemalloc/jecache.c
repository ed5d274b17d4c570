/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jemalloc/jecache.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/jemalloc/emap.h"
#include "format/array.h"

#define BINS_MAX   73u /* number of sizes that can be cached: up to 8 MiB */
#define BINS_MIN   1u
#define CACHES_MAX 8192u
#define TRIES	   3u

/* Before 5.3 any size may be cached. ROOM_MAX is in blocks. */
#define BIN_BYTES 24u
#define LARGE_MAX 64u
#define ROOM_MAX  8192u

/* Layouts in memory: one size, and the beginning of each part. A cache of a later version has fewer
 * sizes; the read includes what follows it. */
struct bin {
	raddr_t head; /* of a stack that grows downwards: the next block to hand out */
	uint64_t requests;
	/* low bits of the addresses where the stack ends and begins */
	uint16_t low_water, full, empty;
	uint16_t more;
};

struct slow {
	raddr_t link[2];
	raddr_t next, previous, bins; /* links in the arena's ring */
	raddr_t more[40];	      /* one of these words is the address of the other part */
};

struct cache {
	raddr_t slow;
	struct bin bin[BINS_MAX];
};

/* One size, before 5.3. */
struct bin_old {
	int32_t low_water, count; /* either may be -1 for a moment */
	uint64_t requests;
	raddr_t end; /* end of its stack, which begins where that of the size before ends */
};

_Static_assert(sizeof(struct bin) == BIN_BYTES, "as in jemalloc");
_Static_assert(sizeof(struct bin_old) == BIN_BYTES, "as in jemalloc");

#define BINS_OFFSET offsetof(struct cache, bin)
#define RING_OFFSET offsetof(struct slow, next)

/* Fields behind the small sizes: the link in the arena's ring, by which a cache is identified, and
 * the large sizes. */
static const struct between {
	size_t ring, large;
} between[JECACHE_FORMS] = {
	[JECACHE_ONE] = {40, 120},
	[JECACHE_FIRST] = {16, 96},
};

#define SMALL_BYTES   ((size_t)EMAP_CLASSES_SMALL * BIN_BYTES)
#define BETWEEN_MAX   120u
#define ONE_BYTES_MAX (SMALL_BYTES + BETWEEN_MAX + LARGE_MAX * BIN_BYTES)

/* The result for one cache. */
struct found {
	raddr_t ring; /* its link in the arena's ring; 0: there is no ring */
	uint64_t bytes, max_bytes;
};

/* --- caches since 5.3 --- */

/* Sums up what one cache holds and could hold: the stacks of all sizes follow each other. Returns
 * the number of sizes. */
static size_t bins_sum(const struct cache *cache, struct found *ret)
{
	raddr_t full =
		cache->bin[0].head - (uint16_t)((uint16_t)cache->bin[0].head - cache->bin[0].full);
	size_t i;
	ret->bytes = ret->max_bytes = 0;
	for (i = 0; i < BINS_MAX; i++) {
		const struct bin *bin = &cache->bin[i];
		uint16_t room = (uint16_t)(bin->empty - bin->full);
		raddr_t empty = full + room;
		if (bin->head % 8 || room % 8 || bin->full != (uint16_t)full || bin->head < full ||
			bin->head > empty || !bin->head || !room)
			break;
		ret->bytes += (empty - bin->head) / 8 * emap_class_bytes(i);
		ret->max_bytes += room / 8 * emap_class_bytes(i);
		full = empty;
	}
	return i;
}

static bool has_link_to(const struct slow *slow, raddr_t cache)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(slow->more); i++)
		if (slow->more[i] == cache)
			return true;
	return false;
}

/* If jemalloc keeps no statistics there is no ring, and only the slow part names the cache. Many
 * pairs of variables look like that, but none is followed by stacks for all small sizes. */
static bool two_read(struct view *view, raddr_t bins, struct found *ret)
{
	raddr_t addr = bins - BINS_OFFSET;
	struct cache cache;
	struct slow slow;
	if (!view_read(view, addr, &cache, sizeof(cache)) || !cache.slow || cache.slow % 8 ||
		!view_read(view, cache.slow, &slow, sizeof(slow)))
		return false;
	bool has_ring = slow.bins == bins;
	if (!has_ring && (slow.next || slow.previous || slow.bins || !has_link_to(&slow, addr)))
		return false;
	ret->ring = has_ring ? cache.slow + RING_OFFSET : 0;
	return bins_sum(&cache, ret) >= (has_ring ? BINS_MIN : EMAP_CLASSES_SMALL);
}

/* --- caches before 5.3 --- */

/* Adds up to `max` sizes from `class` on that follow each other. `*end` is where the stacks before
 * them end. */
static size_t old_bins_sum(
	const uint8_t *data, size_t class, size_t max, raddr_t *end, struct found *found)
{
	uint64_t room_before = 0;
	size_t i;
	for (i = 0; i < max; i++) {
		struct bin_old bin;
		memcpy(&bin, data + i * BIN_BYTES, sizeof(bin));
		uint64_t room = (bin.end - *end) / 8;
		/* No word tells where the first stack begins. It has as many blocks as the second
		 * one: until that is read, count the blocks that it holds. */
		if (!*end)
			room = bin.count > 0 ? (uint64_t)bin.count : 1;
		if (!bin.end || bin.end % 8 || bin.end <= *end || !room || room > ROOM_MAX ||
			bin.count < -1 || bin.low_water < -1 || bin.count > (int64_t)room ||
			bin.low_water > (int64_t)ROOM_MAX)
			break;
		if (bin.count > 0)
			found->bytes += (uint64_t)bin.count * emap_class_bytes(class + i);
		found->max_bytes += room * emap_class_bytes(class + i);
		if (class + i == 1 && room > room_before)
			found->max_bytes += (room - room_before) * emap_class_bytes(0);
		room_before = room;
		*end = bin.end;
	}
	return i;
}

static bool one_read(struct view *view, enum jecache_form form, raddr_t bins, struct found *ret)
{
	const struct between *shape = &between[form];
	uint8_t data[ONE_BYTES_MAX];
	size_t bytes = SMALL_BYTES + shape->large + LARGE_MAX * BIN_BYTES;
	raddr_t end = 0, link[4];
	*ret = (struct found){0};
	if (!view_read(view, bins, data, bytes) ||
		old_bins_sum(data, 0, EMAP_CLASSES_SMALL, &end, ret) != EMAP_CLASSES_SMALL)
		return false;
	memcpy(link, data + SMALL_BYTES + shape->ring, sizeof(link));
	if (link[2] == bins && link[3] == bins + SMALL_BYTES + shape->large)
		ret->ring = bins + SMALL_BYTES + shape->ring;
	size_t larger = old_bins_sum(
		data + SMALL_BYTES + shape->large, EMAP_CLASSES_SMALL, LARGE_MAX, &end, ret);
	/* Without a ring only these fields tell the versions apart. */
	return ret->ring || (larger && !link[0] && !link[1] && !link[2] && !link[3]);
}

static bool read_one(struct view *view, enum jecache_form form, raddr_t bins, struct found *ret)
{
	return form == JECACHE_TWO ? two_read(view, bins, ret) : one_read(view, form, bins, ret);
}

/* --- finding the caches --- */

/* Can a cache be here, by its first word? If a cache has two parts, its first word points at the
 * other part, among the thread's variables. */
static bool is_likely(enum jecache_form form, raddr_t word, raddr_t lo, raddr_t hi)
{
	if (form == JECACHE_TWO)
		return word >= lo && word < hi;
	return word && word % 8 == 0;
}

struct jecache_place jecache_find(struct view *view, const struct threads *threads, bool is_old)
{
	/* Without a ring the first layout can be mistaken for the other, but not the reverse. */
	const enum jecache_form first = is_old ? JECACHE_FIRST : JECACHE_TWO;
	const enum jecache_form last = is_old ? JECACHE_ONE : JECACHE_TWO;
	/* Offset of the word that is_likely checks: the cache's first; before 5.3, the end of the
	 * first size's stack. */
	const size_t at_word = is_old ? offsetof(struct bin_old, end) : 0;
	uint8_t data[THREADS_VARIABLES_BYTES];
	view_forget(view);
	for (size_t i = 0; i < threads->count; i++) {
		raddr_t block = threads->block[i];
		size_t bytes = threads_variables(view, threads, i, data);
		for (size_t at = at_word; at + sizeof(raddr_t) <= bytes; at += sizeof(raddr_t)) {
			raddr_t word, bins = block - bytes + at - at_word;
			struct found found;
			memcpy(&word, data + at, sizeof(word));
			if (!is_likely(first, word, block - bytes, block))
				continue;
			if (!is_old)
				bins += BINS_OFFSET;
			for (enum jecache_form form = first; form <= last; form++)
				if (read_one(view, form, bins, &found))
					return (struct jecache_place){form, block - bins};
		}
	}
	return (struct jecache_place){0};
}

/* --- all caches --- */

struct sum {
	struct view *view;
	enum jecache_form form;
	raddr_t *seen; /* CACHES_MAX links in rings */
	size_t seen_count;
	struct jecache total;
};

static bool is_seen(const struct sum *sum, raddr_t ring)
{
	return array_has_word(sum->seen, sum->seen_count, ring);
}

static bool add(struct sum *sum, const struct found *found)
{
	if (sum->seen_count == CACHES_MAX)
		return false;
	if (found->ring)
		sum->seen[sum->seen_count++] = found->ring;
	sum->total.count++;
	sum->total.bytes += found->bytes;
	if (found->max_bytes > sum->total.max_bytes)
		sum->total.max_bytes = found->max_bytes;
	return true;
}

/* Adds the other caches in the ring, until it closes. */
static bool add_ring(struct sum *sum, raddr_t first)
{
	raddr_t at = first, link[3];
	if (!view_read(sum->view, at, link, sizeof(link)))
		return false;
	for (;;) {
		raddr_t next = link[0];
		struct found found;
		if (next % 8 || !view_read(sum->view, next, link, sizeof(link)) || link[1] != at)
			return false;
		if (next == first)
			return true;
		if (is_seen(sum, next) || !read_one(sum->view, sum->form, link[2], &found) ||
			found.ring != next || !add(sum, &found))
			return false;
		at = next;
	}
}

/* Has the thread no cache? */
static bool is_none(struct sum *sum, raddr_t bins)
{
	struct bin_old bin;
	raddr_t slow;
	if (sum->form == JECACHE_TWO)
		return view_read(sum->view, bins - BINS_OFFSET, &slow, sizeof(slow)) && !slow;
	return view_read(sum->view, bins, &bin, sizeof(bin)) && !bin.end && !bin.count;
}

static void add_thread(struct sum *sum, raddr_t bins)
{
	struct found found = {0};
	bool none = is_none(sum, bins);
	if (!none && !read_one(sum->view, sum->form, bins, &found))
		return;
	bool is_new = !none && !(found.ring && is_seen(sum, found.ring));
	if (is_new && !add(sum, &found))
		return;
	sum->total.known++;
	if (is_new && found.ring)
		sum->total.whole &= add_ring(sum, found.ring);
}

struct ht_err *jecache_read(struct view *view, const struct threads *threads,
	const struct jecache_place *place, struct jecache *ret)
{
	*ret = (struct jecache){0};
	if (!place->distance)
		return NULL;
	HT_FREED raddr_t *seen = calloc(CACHES_MAX, sizeof(*seen));
	struct sum sum = {.view = view, .form = place->form, .seen = seen};
	if (!seen)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the caches of a heap");
	for (unsigned tries = 0; tries < TRIES && !sum.total.whole; tries++) {
		sum.seen_count = 0;
		sum.total = (struct jecache){.whole = true};
		view_forget(view);
		for (size_t i = 0; i < threads->count; i++)
			add_thread(&sum, threads->block[i] - place->distance);
	}
	*ret = sum.total;
	return NULL;
}
