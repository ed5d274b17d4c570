/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/jecache.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/emap.h"

#define BINS_MAX   73u /* as many sizes as can be cached: up to 8 MiB */
#define BINS_MIN   1u
#define CACHES_MAX 8192u
#define TRIES	   3u

/* As they lie in memory: one size, and the beginning of either part. Of later versions a cache has
 * fewer sizes; what is behind it is read with it. */
struct bin {
	raddr_t head; /* of a stack that grows downwards: the next block to be handed out */
	uint64_t requests;
	uint16_t low_water, full, empty; /* the low bits of where the stack ends, and begins */
	uint16_t more;
};

struct slow {
	raddr_t link[2];
	raddr_t next, previous, bins; /* of all that the arena has */
};

struct cache {
	raddr_t slow;
	struct bin bin[BINS_MAX];
};

_Static_assert(sizeof(struct bin) == 24, "as in jemalloc");

#define BINS_OFFSET offsetof(struct cache, bin)
#define RING_OFFSET offsetof(struct slow, next)

/* What one cache holds, and could hold: the stacks of all sizes follow each other. */
static bool bins_sum(const struct cache *cache, uint64_t *ret_bytes, uint64_t *ret_max)
{
	raddr_t full =
		cache->bin[0].head - (uint16_t)((uint16_t)cache->bin[0].head - cache->bin[0].full);
	size_t i;
	*ret_bytes = *ret_max = 0;
	for (i = 0; i < BINS_MAX; i++) {
		const struct bin *bin = &cache->bin[i];
		uint16_t room = (uint16_t)(bin->empty - bin->full);
		raddr_t empty = full + room;
		if (bin->head % 8 || room % 8 || bin->full != (uint16_t)full || bin->head < full ||
			bin->head > empty || !bin->head || !room)
			break;
		*ret_bytes += (empty - bin->head) / 8 * emap_class_bytes(i);
		*ret_max += room / 8 * emap_class_bytes(i);
		full = empty;
	}
	return i >= BINS_MIN;
}

/* `*ret_ring`: its place among those of its arena. */
static bool cache_read(struct view *view, raddr_t addr, struct cache *ret, raddr_t *ret_ring)
{
	struct slow slow;
	if (!view_read(view, addr, ret, sizeof(*ret)) || !ret->slow || ret->slow % 8 ||
		!view_read(view, ret->slow, &slow, sizeof(slow)) || slow.bins != addr + BINS_OFFSET)
		return false;
	*ret_ring = ret->slow + RING_OFFSET;
	return true;
}

uint64_t jecache_find(struct view *view, const struct threads *threads)
{
	uint8_t data[THREADS_VARIABLES_BYTES];
	view_forget(view);
	for (size_t i = 0; i < threads->count; i++) {
		raddr_t block = threads->block[i];
		size_t bytes = threads_variables(view, threads, i, data);
		for (size_t at = 0; at + sizeof(raddr_t) <= bytes; at += sizeof(raddr_t)) {
			raddr_t word, ring;
			struct cache cache;
			uint64_t held_bytes, max_bytes;
			memcpy(&word, data + at, sizeof(word));
			/* Both parts are variables of the thread. */
			if (word < block - bytes || word >= block)
				continue;
			if (cache_read(view, block - bytes + at, &cache, &ring) &&
				bins_sum(&cache, &held_bytes, &max_bytes))
				return bytes - at;
		}
	}
	return 0;
}

/* --- all of them --- */

struct sum {
	struct view *view;
	raddr_t *seen; /* CACHES_MAX: places in rings */
	size_t seen_count;
	struct jecache total;
};

static bool is_seen(const struct sum *sum, raddr_t ring)
{
	for (size_t i = 0; i < sum->seen_count; i++)
		if (sum->seen[i] == ring)
			return true;
	return false;
}

static bool add(struct sum *sum, raddr_t addr)
{
	struct cache cache;
	raddr_t ring;
	uint64_t bytes, max_bytes;
	if (sum->seen_count == CACHES_MAX || !cache_read(sum->view, addr, &cache, &ring) ||
		!bins_sum(&cache, &bytes, &max_bytes))
		return false;
	sum->seen[sum->seen_count++] = ring;
	sum->total.count++;
	sum->total.bytes += bytes;
	if (max_bytes > sum->total.max_bytes)
		sum->total.max_bytes = max_bytes;
	return true;
}

/* The others of the ring that a cache is in, until it is closed. */
static bool add_ring(struct sum *sum, raddr_t first)
{
	raddr_t at = first, link[3];
	if (!view_read(sum->view, at, link, sizeof(link)))
		return false;
	for (;;) {
		raddr_t next = link[0];
		if (next % 8 || !view_read(sum->view, next, link, sizeof(link)) || link[1] != at)
			return false;
		if (next == first)
			return true;
		if (is_seen(sum, next) || !add(sum, link[2] - BINS_OFFSET) ||
			sum->seen[sum->seen_count - 1] != next)
			return false;
		at = next;
	}
}

static void add_thread(struct sum *sum, raddr_t addr)
{
	struct cache cache;
	raddr_t slow, ring;
	if (!view_read(sum->view, addr, &slow, sizeof(slow)))
		return;
	if (!slow) {
		sum->total.known++;
		return;
	}
	if (!cache_read(sum->view, addr, &cache, &ring))
		return;
	if (is_seen(sum, ring)) {
		sum->total.known++;
		return;
	}
	if (!add(sum, addr))
		return;
	sum->total.known++;
	sum->total.whole &= add_ring(sum, ring);
}

struct ht_err *jecache_read(
	struct view *view, const struct threads *threads, uint64_t distance, struct jecache *ret)
{
	struct sum sum = {.view = view};
	*ret = (struct jecache){0};
	if (!distance)
		return NULL;
	sum.seen = calloc(CACHES_MAX, sizeof(*sum.seen));
	if (!sum.seen)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the caches of a heap");
	for (unsigned tries = 0; tries < TRIES && !sum.total.whole; tries++) {
		sum.seen_count = 0;
		sum.total = (struct jecache){.whole = true};
		view_forget(view);
		for (size_t i = 0; i < threads->count; i++)
			add_thread(&sum, threads->block[i] - distance);
	}
	*ret = sum.total;
	free(sum.seen);
	return NULL;
}
