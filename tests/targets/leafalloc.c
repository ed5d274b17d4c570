/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator that calls nothing, or only functions that never return, and its callers: the
 * compiler knows which registers the allocator preserves, and keeps values in them. At each line of
 * input the program adds up numbers in such registers, and answers the sum; it fails if that is
 * wrong.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/targets/speak.h"

#define ROUNDS	    10000u
#define ARENA_BYTES (1u << 20)
#define SEEN	    __attribute__((noinline))

static char arena[ARENA_BYTES] __attribute__((aligned(16)));
static size_t used;

SEEN __attribute__((noreturn, cold)) static void give_up(void)
{
	__builtin_trap();
}

SEEN void *malloc(size_t size)
{
	size_t at = used;
	if (at >= ARENA_BYTES)
		give_up();
	used = (used + size + 15) & (ARENA_BYTES / 2 - 16);
	return arena + at;
}

SEEN void free(void *block)
{
	if ((uintptr_t)block % 16)
		give_up();
	if (block)
		*(char *)block = 1;
}

SEEN void *calloc(size_t count, size_t size)
{
	char *block = malloc(count * size);
	for (size_t i = 0; i < count * size; i++)
		block[i] = 0;
	return block;
}

SEEN void *realloc(void *block, size_t size)
{
	if (block)
		*(char *)block = 1;
	return malloc(size);
}

static uint64_t add_up(void)
{
	uint64_t a = 1, b = 2, c = 3, d = 4;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		void *volatile block = malloc(24);
		a += i;
		b += a ^ i;
		free(block);
		c += b ^ a;
		d += c ^ i;
	}
	return a ^ b ^ c ^ d;
}

int main(void)
{
	uint64_t sum = add_up();
	free(calloc(1, 8));
	free(realloc(NULL, 8));
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		if (add_up() != sum)
			speak_fail("a register was lost");
		speak_add("%lx", (unsigned long)sum);
		speak_send();
	}
	_exit(0);
}
