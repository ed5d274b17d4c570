/* SPDX-License-Identifier: Apache-2.0
 *
 * libwrapping.so, preloaded: an allocator whose functions call each other through its own GOT
 * slots, so that one call of the program makes a chain of hooked calls. malloc reaches the next one
 * through a function with a large frame. libwrapping-versions.so is the same with symbol versions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FRAME_BYTES 3000
#define PAGE_BYTES  4096

extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *ptr, size_t size);
void *reallocarray(void *ptr, size_t count, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
void free(void *ptr);
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);
void cfree(void *ptr);
size_t malloc_usable_size(void *ptr);

static __attribute__((noinline)) void *far_away(size_t size)
{
	volatile char frame[FRAME_BYTES];
	frame[size % FRAME_BYTES] = 1;
	void *ptr = calloc(1, size);
	return frame[size % FRAME_BYTES] ? ptr : NULL;
}

void *malloc(size_t size)
{
	void *volatile ptr = far_away(size);
	return ptr;
}

void *calloc(size_t count, size_t size)
{
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	if (old && !size) {
		free(old);
		return NULL;
	}
	void *ptr = malloc(size);
	if (!old || !ptr)
		return ptr;
	size_t usable = malloc_usable_size(old);
	memcpy(ptr, old, usable < size ? usable : size);
	free(old);
	return ptr;
}

void *reallocarray(void *ptr, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(ptr, bytes);
}

void *memalign(size_t alignment, size_t size)
{
	return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	void *volatile ptr = memalign(alignment, size);
	return ptr;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
		return EINVAL;
	void *ptr = aligned_alloc(alignment, size);
	if (!ptr)
		return ENOMEM;
	*out = ptr;
	return 0;
}

void *valloc(size_t size)
{
	return aligned_alloc(PAGE_BYTES, size);
}

void *pvalloc(size_t size)
{
	return valloc((size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
}

void cfree(void *ptr)
{
	__libc_free(ptr);
	__asm__ volatile("");
}

void free_sized(void *ptr, size_t size)
{
	(void)size;
	cfree(ptr);
	__asm__ volatile("");
}

void free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	free_sized(ptr, size);
	__asm__ volatile("");
}

void free(void *ptr)
{
	free_sized(ptr, 0);
	__asm__ volatile("");
}

size_t malloc_usable_size(void *ptr)
{
	static size_t (*next)(void *ptr);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc_usable_size");
	return next(ptr);
}
