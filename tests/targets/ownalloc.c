/* SPDX-License-Identifier: Apache-2.0
 *
 * libownalloc.so: an allocator that may be called from signal handlers at any instruction, even
 * from one that interrupted itself. It takes from one mapping by an atomic addition; only the
 * newest block goes back. Each block is preceded by its size. While ownalloc_hold is set, a thread
 * that asks for OWNALLOC_SLOW bytes sleeps in malloc.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/targets/ownalloc.h"

#define ARENA_BYTES (1ul << 36)
#define HEAD	    16u

static atomic_uintptr_t next, end;

static void arena_open(void)
{
	void *arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return;
	uintptr_t expected = 0;
	if (atomic_compare_exchange_strong(&next, &expected, (uintptr_t)arena))
		atomic_store(&end, (uintptr_t)arena + ARENA_BYTES);
	else
		munmap(arena, ARENA_BYTES);
}

static size_t room_of(size_t alignment, size_t size)
{
	return (size + HEAD + alignment + 15) & ~15ul;
}

static void *take(size_t alignment, size_t size)
{
	if (!atomic_load(&next))
		arena_open();
	if (size > ARENA_BYTES / 2) {
		errno = ENOMEM;
		return NULL;
	}
	uintptr_t at = atomic_fetch_add(&next, room_of(alignment, size));
	at = (at + HEAD + alignment - 1) & ~(alignment - 1);
	((size_t *)at)[-1] = size;
	return (void *)at;
}

atomic_int ownalloc_hold, ownalloc_held;

void *malloc(size_t size)
{
	while (size == OWNALLOC_SLOW && atomic_load(&ownalloc_hold)) {
		atomic_store(&ownalloc_held, 1);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return take(16, size);
}

/* Contains a call that is never made: a function that calls nothing gets no entry hook. */
void free(void *ptr)
{
	if (ptr) {
		uintptr_t begin = (uintptr_t)ptr - HEAD;
		uintptr_t expected = begin + room_of(16, ((size_t *)ptr)[-1]);
		atomic_compare_exchange_strong(&next, &expected, begin);
	}
	while (atomic_load(&ownalloc_hold) < 0)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *ptr = take(16, bytes);
	return ptr ? memset(ptr, 0, bytes) : NULL;
}

static void *resize(void *old, size_t size)
{
	if (old && !size)
		return NULL;
	void *ptr = take(16, size);
	if (ptr && old) {
		size_t had = ((size_t *)old)[-1];
		memcpy(ptr, old, had < size ? had : size);
	}
	return ptr;
}

void *realloc(void *old, size_t size)
{
	return resize(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return resize(old, bytes);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	if (alignment % sizeof(void *) || alignment & (alignment - 1) || !alignment)
		return EINVAL;
	*ret = take(alignment, size);
	return *ret ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return take(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
	return take(alignment, size);
}

void *valloc(size_t size)
{
	return take(4096, size);
}

void *pvalloc(size_t size)
{
	return take(4096, (size + 4095) & ~4095ul);
}

size_t malloc_usable_size(void *ptr)
{
	return ptr ? ((size_t *)ptr)[-1] : 0;
}
