/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/glibc/tcache.h"

#include <string.h>

#define CACHE_BINS  64u
#define CHUNK_ALIGN 16u
#define SIZE_ARENA  4u /* the chunk belongs to an arena other than the first */
#define ASKED	    4u /* threads whose variables are searched for a cache */

/* Layout in memory, from the size in its chunk's header on. */
struct cache {
	uint64_t size;
	uint16_t count[CACHE_BINS];
	raddr_t entry[CACHE_BINS];
};

#define CACHE_CHUNK_BYTES 0x290u

_Static_assert(sizeof(struct cache) + 8 == CACHE_CHUNK_BYTES, "as in glibc");

static uint64_t block_bytes(size_t bin)
{
	return (bin + 2) * CHUNK_ALIGN;
}

uint64_t tcache_max_bytes(const struct tunables *tunables)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < tunables->cache_bins; i++)
		sum += tunables->cache_count * block_bytes(i);
	return sum;
}

static bool is_cache(const struct view *view, const struct cache *cache, bool *ret_used)
{
	*ret_used = false;
	if ((cache->size & ~(uint64_t)SIZE_ARENA) != (CACHE_CHUNK_BYTES | 1))
		return false;
	for (size_t i = 0; i < CACHE_BINS; i++) {
		if (!cache->count[i] != !cache->entry[i])
			return false;
		if (cache->entry[i] &&
			(cache->entry[i] % CHUNK_ALIGN || !view_may_hold(view, cache->entry[i])))
			return false;
		*ret_used |= cache->count[i] != 0;
	}
	return true;
}

static bool read_cache(struct view *view, const struct tunables *tunables, raddr_t addr,
	uint64_t *ret_bytes, bool *ret_used)
{
	struct cache cache;
	*ret_bytes = 0;
	if (addr % CHUNK_ALIGN ||
		!view_read(view, addr - sizeof(cache.size), &cache, sizeof(cache)) ||
		!is_cache(view, &cache, ret_used))
		return false;
	for (size_t i = 0; i < CACHE_BINS; i++)
		*ret_bytes += cache.count[i] * block_bytes(i);
	return *ret_bytes <= tcache_max_bytes(tunables);
}

/* Returns the distance from the thread's control block to the variable that points at its cache; 0:
 * unknown. An empty cache looks like any other zeroed block, so it proves nothing. */
static uint64_t find_distance(struct view *view, const struct tunables *tunables,
	const struct threads *threads, size_t index)
{
	uint8_t data[THREADS_VARIABLES_BYTES];
	size_t bytes = threads_variables(view, threads, index, data);
	for (size_t at = bytes; at >= sizeof(raddr_t); at -= sizeof(raddr_t)) {
		raddr_t addr;
		uint64_t held;
		bool used;
		memcpy(&addr, data + at - sizeof(addr), sizeof(addr));
		if (view_holds(view, addr) && read_cache(view, tunables, addr, &held, &used) &&
			used)
			return bytes - at + sizeof(addr);
	}
	return 0;
}

struct ht_err *tcache_find(
	struct view *view, const struct tunables *tunables, struct tcache_places *ret)
{
	*ret = (struct tcache_places){0};
	struct ht_err *err = threads_find(view, &ret->threads);
	for (size_t i = 0; i < ret->threads.count && i < ASKED && !err && !ret->distance; i++)
		ret->distance = find_distance(view, tunables, &ret->threads, i);
	return err;
}

void tcache_places_deinit(struct tcache_places *places)
{
	threads_deinit(&places->threads);
	places->distance = 0;
}

struct tcache tcache_read(
	struct view *view, const struct tunables *tunables, const struct tcache_places *places)
{
	view_forget(view);
	struct tcache sum = {.threads = (unsigned)places->threads.count};
	for (size_t i = 0; i < places->threads.count && places->distance; i++) {
		raddr_t addr;
		uint64_t bytes = 0;
		bool used;
		if (!view_read(
			    view, places->threads.block[i] - places->distance, &addr, sizeof(addr)))
			continue;
		if (addr && !read_cache(view, tunables, addr, &bytes, &used))
			continue;
		sum.known++;
		sum.bytes += bytes;
	}
	return sum;
}
