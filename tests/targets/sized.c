/* SPDX-License-Identifier: Apache-2.0
 *
 * Frees by the functions that C23 added, of libwrapping.so (wrapping.c). `go` allocates and frees
 * BLOCKS blocks of each kind, then allocates one of LEFT_BYTES, which stays.
 */
#include <stdlib.h>

#include "tests/targets/phases.h"

#define BLOCKS	   1000
#define LEFT_BYTES 77

void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

static void *volatile left;

static void run(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *volatile plain = malloc(500), *volatile aligned = aligned_alloc(64, 640);
		free_sized(plain, 500);
		free_aligned_sized(aligned, 64, 640);
	}
	left = malloc(LEFT_BYTES);
	phase++;
}

static void say(void)
{
	speak_add("{\"left\":%d}", LEFT_BYTES);
	speak_send();
}

int main(void)
{
	phases_obey(run, say);
	return 0;
}
