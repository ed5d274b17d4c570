/* SPDX-License-Identifier: Apache-2.0
 *
 * libcounting.so, preloaded, or loaded later by a library that is bound to it: counts the calls
 * that pass it on their way to glibc's allocator.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void __libc_free(void *ptr);

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *ptr, size_t size);
void free(void *ptr);
size_t malloc_usable_size(void *ptr);
long counting_calls(void);

static atomic_ulong calls;

void *malloc(size_t size)
{
	atomic_fetch_add(&calls, 1);
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	atomic_fetch_add(&calls, 1);
	return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
	atomic_fetch_add(&calls, 1);
	return __libc_realloc(ptr, size);
}

void free(void *ptr)
{
	atomic_fetch_add(&calls, 1);
	__libc_free(ptr);
}

size_t malloc_usable_size(void *ptr)
{
	static size_t (*next)(void *ptr);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc_usable_size");
	return next(ptr);
}

long counting_calls(void)
{
	return (long)atomic_load(&calls);
}
