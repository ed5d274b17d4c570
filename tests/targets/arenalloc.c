/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/targets/arenalloc.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (1ul << 18)
#define HEAD	    16u
#define CLASSES	    32

struct block {
	struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *unused[CLASSES];
static char *chunk;
static size_t left;

/* Takes memory from the C library in chunks, which the program does not count. */
static void *carve(size_t bytes)
{
	if (left < bytes) {
		chunk = malloc(CHUNK_BYTES);
		left = chunk ? CHUNK_BYTES : 0;
	}
	if (left < bytes)
		return NULL;
	left -= bytes;
	return chunk + left;
}

/* Stores the size class in front of each block. */
static inline __attribute__((always_inline)) void *take(size_t size)
{
	int class = 4;
	while ((1ul << class) < size)
		class ++;
	pthread_mutex_lock(&lock);
	struct block *block = unused[class];
	if (block) {
		unused[class] = block->next;
	} else {
		char *room = carve(HEAD + (1ul << class));
		block = room ? (void *)(room + HEAD) : NULL;
	}
	pthread_mutex_unlock(&lock);
	if (block)
		((int *)block)[-1] = class;
	return block;
}

/* A leaf function: its callers may keep values in caller-saved registers that it does not use. */
void arena_forget(void *block)
{
	if (block)
		*(char *)block = 0;
}

void *arena_get(size_t size)
{
	return take(size);
}

/* Calls arena_get, which is hooked, too; heaptap must record one allocation. */
void *arena_zeroed(size_t count, size_t size)
{
	void *block = arena_get(count * size);
	return block ? memset(block, 0, count * size) : NULL;
}

void *arena_resize(void *old, size_t size)
{
	void *block = arena_get(size);
	if (old && block) {
		size_t had = 1ul << ((int *)old)[-1];
		memcpy(block, old, had < size ? had : size);
		arena_put(old);
	}
	return block;
}

/* NULL for alignments above 16. */
void *arena_aligned(size_t alignment, size_t size)
{
	return alignment <= 16 ? take(size) : NULL;
}

int arena_place(void **out, size_t alignment, size_t size)
{
	*out = arena_aligned(alignment, size);
	return !*out;
}

__attribute__((noinline)) void arena_put(void *block)
{
	struct block *gone = block;
	if (!gone)
		return;
	int class = ((int *)block)[-1];
	pthread_mutex_lock(&lock);
	gone->next = unused[class];
	unused[class] = gone;
	pthread_mutex_unlock(&lock);
}

/* Only a jump to arena_put, too short for an entry hook. */
void arena_put_sized(void *block, size_t size)
{
	(void)size;
	arena_put(block);
}

#ifdef ARENA_BEHIND
/* Also only a jump to arena_put, but with another block than its own argument. */
void arena_put_behind(void *block)
{
	arena_put((char *)block - 16);
}

/* Only some calls jump to arena_get: the function keeps blocks itself, and is also too short for an
 * entry hook. */
void *arena_get_kept(size_t size)
{
	static __thread struct block *volatile kept;
	if (size > 0x8122)
		return arena_get(size);
	struct block *block = kept;
	if (!block)
		return arena_get(size);
	kept = block->next;
	return block;
}
#endif
