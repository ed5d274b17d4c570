/* SPDX-License-Identifier: Apache-2.0
 *
 * Grows arrays that are stored as a pointer, a capacity and possibly a count.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "format/base.h"
#include "format/err.h"

/* Makes `array`, which is malloc'd and holds `capacity` elements (NULL: 0), hold at least `wanted`
 * elements; new ones are zero. On failure `array` and `capacity` are unchanged. `what` names the
 * elements in the message. */
#define ARRAY_RESERVE(array, capacity, wanted, what)                                               \
	array_reserve(&(array), &(capacity), (wanted), sizeof((array)[0]), (what))
HT_MUST_CHECK
struct ht_err *array_reserve(
	void *data, size_t *capacity, size_t wanted, size_t element_bytes, const char *what);

/* Makes room for one more element behind the `count` used ones. `array` is malloc'd and holds
 * `capacity` elements; NULL if `capacity` is 0. If the array is full, it grows to twice its length,
 * or from empty to `first` elements; `array` and `capacity` then change, and the new elements are
 * not initialised. False: out of memory; nothing has changed. */
#define ARRAY_HAS_ROOM(array, count, capacity, first)                                              \
	array_has_room(&(array), (count), &(capacity), (first), sizeof((array)[0]))

static inline bool array_has_room(
	void *array, size_t count, size_t *capacity, size_t first, size_t element_bytes)
{
	void *now;
	size_t wanted = *capacity ? 2 * *capacity : first;
	if (count < *capacity)
		return true;
	/* memcpy because `array` is a pointer to a pointer of any type. */
	memcpy(&now, array, sizeof(now));
	void *grown = reallocarray(now, wanted, element_bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*capacity = wanted;
	return true;
}

/* HT_FREED type *memory: from malloc, or NULL; freed at the end of its scope. */
#define HT_FREED HT_CLEANUP(array_freed)

static inline void array_freed(void *variable)
{
	void *memory;
	memcpy(&memory, variable, sizeof(memory));
	free(memory);
}

/* Whether `word` is among the `count` words of `array`. */
static inline bool array_has_word(const uint64_t *array, size_t count, uint64_t word)
{
	for (size_t i = 0; i < count; i++)
		if (array[i] == word)
			return true;
	return false;
}

/* The index of the first element whose key is `key` or above; `count`: none. The elements ascend by
 * their keys, which are their first members, of type uint64_t. */
static inline size_t array_from(const void *array, size_t count, size_t element_bytes, uint64_t key)
{
	size_t lo = 0, hi = count;
	while (lo < hi) {
		uint64_t its;
		size_t middle = lo + (hi - lo) / 2;
		memcpy(&its, (const uint8_t *)array + middle * element_bytes, sizeof(its));
		if (its < key)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}
