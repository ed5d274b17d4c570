/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from one 64-bit key to one 32-bit value. Single entries are never removed.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Zero-initialised is empty and valid. */
struct map {
	struct map_entry *entry;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
	uint64_t multiplier;
	unsigned shift; /* 64 - log2(capacity): the upper bits of a product are the good ones */
};

struct map_entry {
	uint64_t key;
	uint32_t value_plus_1; /* 0: empty */
};

void map_deinit(struct map *map);
/* Removes every entry; the capacity stays. */
void map_clear(struct map *map);
bool map_get(const struct map *map, uint64_t key, uint32_t *ret);
/* Sets the value of `key`; `value` is below UINT32_MAX. */
HT_MUST_CHECK
struct ht_err *map_put(struct map *map, uint64_t key, uint32_t value);

/* A random odd factor for multiplicative hashing, so that no input can choose its collisions. */
uint64_t map_random_multiplier(void);
