/* SPDX-License-Identifier: Apache-2.0
 *
 * libburst-*.so, libraries that storm loads and unloads: the constructor allocates, the destructor
 * checks the contents of these blocks. The builds differ in how their GOT slots are bound.
 */
#include <stdlib.h>
#include <string.h>

#define KEPT 8

long burst_work(unsigned long count);

static unsigned char *kept[KEPT];

static size_t size_of(unsigned i)
{
	return 40 + 100 * i;
}

__attribute__((constructor)) static void burst_begin(void)
{
	for (unsigned i = 0; i < KEPT; i++) {
		kept[i] = i % 2 ? malloc(size_of(i)) : calloc(1, size_of(i));
		memset(kept[i], (int)i, size_of(i));
	}
}

__attribute__((destructor)) static void burst_end(void)
{
	for (unsigned i = 0; i < KEPT; i++) {
		for (size_t at = 0; at < size_of(i); at++)
			if (kept[i][at] != i)
				abort();
		free(kept[i]);
	}
}

/* Returns how many calls of the allocator it made. */
long burst_work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *volatile ptr = malloc(333);
		ptr = realloc(ptr, 444);
		free(ptr);
	}
	return (long)(3 * count);
}
