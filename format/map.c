/* SPDX-License-Identifier: Apache-2.0 */
#include "format/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t map_random_multiplier(void)
{
	uint64_t random;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = 0x9e3779b97f4a7c15ull;
	return random | 1;
}

void map_deinit(struct map *map)
{
	free(map->entry);
	*map = (struct map){0};
}

void map_clear(struct map *map)
{
	if (map->count)
		memset(map->entry, 0, map->capacity * sizeof(*map->entry));
	map->count = 0;
}

static struct map_entry *find(const struct map *map, uint64_t key)
{
	size_t mask = map->capacity - 1;
	size_t at = key * map->multiplier >> map->shift;
	while (map->entry[at].value_plus_1 && map->entry[at].key != key)
		at = (at + 1) & mask;
	return &map->entry[at];
}

bool map_get(const struct map *map, uint64_t key, uint32_t *ret)
{
	if (!map->capacity)
		return false;
	const struct map_entry *entry = find(map, key);
	if (!entry->value_plus_1)
		return false;
	*ret = entry->value_plus_1 - 1;
	return true;
}

static struct ht_err *grow(struct map *map)
{
	struct map bigger = *map;
	bigger.capacity = map->capacity ? map->capacity * 2 : 64;
	bigger.shift = 64 - (unsigned)__builtin_ctzll(bigger.capacity);
	bigger.entry = calloc(bigger.capacity, sizeof(*bigger.entry));
	if (!bigger.entry)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for a map of %zu entries", bigger.capacity);
	if (!bigger.multiplier)
		bigger.multiplier = map_random_multiplier();
	for (size_t i = 0; i < map->capacity; i++)
		if (map->entry[i].value_plus_1)
			*find(&bigger, map->entry[i].key) = map->entry[i];
	free(map->entry);
	*map = bigger;
	return NULL;
}

struct ht_err *map_put(struct map *map, uint64_t key, uint32_t value)
{
	if (map->count * 2 >= map->capacity)
		HT_TRY(grow(map));
	struct map_entry *entry = find(map, key);
	if (!entry->value_plus_1)
		map->count++;
	*entry = (struct map_entry){.key = key, .value_plus_1 = value + 1};
	return NULL;
}
