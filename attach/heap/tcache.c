/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/tcache.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_BINS	64u
#define CHUNK_ALIGN	16u
#define SIZE_ARENA	4u     /* the chunk is not of the first arena */
#define STACK_END_BYTES 16384u /* of a mapping: a control block lies there if at all */
#define SMALL_BYTES	65536u /* such a mapping is searched as a whole: the first thread's */
#define VARIABLES_BYTES 16384u /* of a thread, before its control block */
#define CONTROL_ALIGN	64u
#define CONTROL_TID	0x2d0u
#define THREADS_MAX	4096u
#define ASKED		4u /* threads that say where the caches are */

/* As it lies in memory, behind the size of its chunk. */
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

/* --- threads --- */

static struct ht_err *add_thread(struct tcache_places *places, raddr_t addr)
{
	if (places->count == THREADS_MAX)
		return NULL;
	if (places->count == places->capacity) {
		size_t capacity = places->capacity ? 2 * places->capacity : 64;
		raddr_t *grown = reallocarray(places->thread, capacity, sizeof(*places->thread));
		if (!grown)
			return ht_err_new(HT_ERR_NOMEM, "no memory for the threads of a process");
		places->thread = grown;
		places->capacity = capacity;
	}
	places->thread[places->count++] = addr;
	return NULL;
}

/* What a control block begins with, and who it belongs to: that of a thread which has ended is
 * kept for the next one. */
static bool is_control(const uint8_t *data, size_t bytes, raddr_t addr)
{
	raddr_t word[3];
	int32_t tid;
	if (bytes < CONTROL_TID + sizeof(tid))
		return false;
	memcpy(word, data, sizeof(word));
	memcpy(&tid, data + CONTROL_TID, sizeof(tid));
	return word[0] == addr && word[2] == addr && tid > 0;
}

static struct ht_err *search(
	struct view *view, raddr_t lo, size_t bytes, struct tcache_places *places)
{
	uint8_t data[SMALL_BYTES];
	struct ht_err *err = NULL;
	size_t got = view_read_data(view, lo, data, bytes);
	for (size_t at = 0; at < got && !err; at += CONTROL_ALIGN)
		if (is_control(data + at, got - at, lo + at))
			err = add_thread(places, lo + at);
	return err;
}

static struct ht_err *find_threads(struct view *view, struct tcache_places *places)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < view->maps.count && !err; i++) {
		const struct proc_map *map = &view->maps.map[i];
		uint64_t bytes = map->hi - map->lo;
		if (!view_holds(view, map->lo))
			continue;
		/* That of the first thread of a static program is what its break began with. */
		if (bytes > SMALL_BYTES && !strcmp(map->name, "[heap]"))
			err = search(view, map->lo, STACK_END_BYTES, places);
		if (bytes > SMALL_BYTES)
			bytes = STACK_END_BYTES;
		if (!err)
			err = search(view, map->hi - bytes, bytes, places);
	}
	return err;
}

/* --- caches --- */

static bool is_cache(const struct view *view, const struct cache *cache, bool *ret_used)
{
	*ret_used = false;
	if ((cache->size & ~(uint64_t)SIZE_ARENA) != (CACHE_CHUNK_BYTES | 1))
		return false;
	for (size_t i = 0; i < CACHE_BINS; i++) {
		if (!cache->count[i] != !cache->entry[i])
			return false;
		if (cache->entry[i] &&
			(cache->entry[i] % CHUNK_ALIGN || !view_holds(view, cache->entry[i])))
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

/* One that nothing is in looks like any other empty block. */
static uint64_t find_distance(struct view *view, const struct tunables *tunables, raddr_t thread)
{
	uint8_t data[VARIABLES_BYTES];
	size_t bytes = sizeof(data);
	while (bytes && !view_holds(view, thread - bytes))
		bytes -= CONTROL_ALIGN;
	size_t got = view_read_data(view, thread - bytes, data, bytes);
	for (size_t at = got; got == bytes && at >= sizeof(raddr_t); at -= sizeof(raddr_t)) {
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
	struct ht_err *err = find_threads(view, ret);
	for (size_t i = 0; i < ret->count && i < ASKED && !err && !ret->distance; i++)
		ret->distance = find_distance(view, tunables, ret->thread[i]);
	return err;
}

void tcache_places_deinit(struct tcache_places *places)
{
	free(places->thread);
	*places = (struct tcache_places){0};
}

struct tcache tcache_read(
	struct view *view, const struct tunables *tunables, const struct tcache_places *places)
{
	view_forget(view);
	struct tcache sum = {.threads = (unsigned)places->count};
	for (size_t i = 0; i < places->count && places->distance; i++) {
		raddr_t addr;
		uint64_t bytes = 0;
		bool used;
		if (!view_read(view, places->thread[i] - places->distance, &addr, sizeof(addr)))
			continue;
		if (addr && !read_cache(view, tunables, addr, &bytes, &used))
			continue;
		sum.known++;
		sum.bytes += bytes;
	}
	return sum;
}
