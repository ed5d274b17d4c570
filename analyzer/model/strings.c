/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/strings.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 65536u

struct strings_chunk {
	struct strings_chunk *next;
	size_t used, size;
	char text[];
};

void strings_deinit(struct strings *strings)
{
	free(strings->slot);
	while (strings->chunk) {
		struct strings_chunk *chunk = strings->chunk;
		strings->chunk = chunk->next;
		free(chunk);
	}
	*strings = (struct strings){0};
}

const char *strings_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash && slash[1] ? slash + 1 : path;
}

uint64_t strings_hash(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

static uint64_t hash(const char *text, size_t length)
{
	const uint64_t h = strings_hash(STRINGS_HASH, text, length);
	return h ^ h >> 32;
}

static const char **find(const struct strings *strings, const char *text, size_t length)
{
	size_t mask = strings->capacity - 1;
	size_t at = hash(text, length) & mask;
	while (strings->slot[at] &&
		(strncmp(strings->slot[at], text, length) != 0 || strings->slot[at][length] != 0))
		at = (at + 1) & mask;
	return &strings->slot[at];
}

static struct ht_err *grow(struct strings *strings)
{
	struct strings bigger = *strings;
	bigger.capacity = strings->capacity ? strings->capacity * 2 : 256;
	bigger.slot = calloc(bigger.capacity, sizeof(*bigger.slot));
	if (!bigger.slot)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu strings", bigger.capacity);
	for (size_t i = 0; i < strings->capacity; i++)
		if (strings->slot[i])
			*find(&bigger, strings->slot[i], strlen(strings->slot[i])) =
				strings->slot[i];
	free(strings->slot);
	*strings = bigger;
	return NULL;
}

static struct ht_err *copy(
	struct strings *strings, const char *text, size_t length, const char **ret)
{
	struct strings_chunk *chunk = strings->chunk;
	if (!chunk || chunk->size - chunk->used <= length) {
		size_t size = length < CHUNK_BYTES ? CHUNK_BYTES : length + 1;
		chunk = malloc(sizeof(*chunk) + size);
		if (!chunk)
			return ht_err_new(HT_ERR_NOMEM, "out of memory for names");
		*chunk = (struct strings_chunk){.next = strings->chunk, .size = size};
		strings->chunk = chunk;
	}
	char *stored = chunk->text + chunk->used;
	memcpy(stored, text, length);
	stored[length] = 0;
	chunk->used += length + 1;
	*ret = stored;
	return NULL;
}

struct ht_err *strings_intern(struct strings *strings, struct rec_string text, const char **ret)
{
	size_t length = text.length ? strnlen(text.data, text.length) : 0;
	if (strings->count * 2 >= strings->capacity)
		HT_TRY(grow(strings));
	const char **slot = find(strings, length ? text.data : "", length);
	if (!*slot) {
		HT_TRY(copy(strings, length ? text.data : "", length, slot));
		strings->count++;
	}
	*ret = *slot;
	return NULL;
}
