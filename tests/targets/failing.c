/* SPDX-License-Identifier: Apache-2.0
 *
 * libfailing.so, preloaded into heaptap: glibc's allocator, but for one call that gets no memory.
 * The places that allocate are numbered, over all processes, in the order in which they first do
 * so; at place FAILING_PLACE the first call fails. The file FAILING_BOOKS (failing.h) lists the
 * places.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/targets/failing.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *aligned_alloc(size_t alignment, size_t size);

static struct failing_books *books;
static unsigned long wanted;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAILING_BOOKS"), *place = getenv("FAILING_PLACE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0 || !place)
		_exit(126);
	wanted = strtoul(place, NULL, 10);
	void *page = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		_exit(126);
	close(fd);
	books = page;
}

/* Must this call fail? A caller's address is the same place in all processes of heaptap, because
 * they are forks. */
static int fails(const void *caller)
{
	unsigned long at = 0;
	if (!books)
		return 0;
	for (; at < FAILING_PLACES_MAX; at++) {
		void *none = NULL;
		if (atomic_compare_exchange_strong(&books->place[at], &none, (void *)caller))
			break;
		if (none == caller)
			return 0;
	}
	atomic_fetch_add(&books->count, 1);
	if (at + 1 != wanted)
		return 0;
	errno = ENOMEM;
	return 1;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

void *malloc(size_t size)
{
	return fails(CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails(CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
	return fails(CALLER) ? NULL : __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fails(CALLER) ? NULL : __libc_memalign(alignment, size);
}
