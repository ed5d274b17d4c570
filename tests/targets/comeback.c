/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator whose free has a part elsewhere (free.cold), as compilers make for rare cases:
 * free(NULL) jumps there, and back to free + 4 with another argument. The program is at fixed
 * addresses: jumps in place of the first two instructions would lead below address 0, one in place
 * of the third 1 GiB up. For each line of input it calls free(NULL) a thousand times, and answers
 * how often free.cold has run.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/targets/speak.h"

#define ROUNDS	    1000u
#define ARENA_BYTES (1u << 20)

static char arena[ARENA_BYTES] __attribute__((aligned(16)));
static size_t used;

/* Never set. Gives malloc and free a call: a function that calls nothing gets no entry hook. */
atomic_long comeback_hold;

void comeback_wait(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void (*volatile comeback_waits)(void) = comeback_wait;
unsigned comeback_count;

void *malloc(size_t size)
{
	size_t at = used;
	while (atomic_load(&comeback_hold))
		comeback_waits();
	used = (used + size + 15) & (ARENA_BYTES / 2 - 16);
	return arena + at;
}

__asm__(".pushsection .text\n.globl free\n.type free, @function\n.balign 16\n"
	"free: push %rbx\n mov %rdi, %rax\n"
	"1: test %edi, %edi\n je free.cold\n"
	"2: cmpq $0, comeback_hold(%rip)\n jne 3f\n pop %rbx\n ret\n"
	"3: call *comeback_waits(%rip)\n jmp 2b\n"
	".size free, . - free\n"
	/* The third instruction's jump ends with the first byte of this distance. */
	".org free + 12 + 0x140, 0xcc\n"
	".type free.cold, @function\n"
	"free.cold: incl comeback_count(%rip)\n mov $1, %edi\n jmp 1b\n"
	".size free.cold, . - free.cold\n.popsection");

void *calloc(size_t count, size_t size)
{
	char *block = malloc(count * size);
	for (size_t i = 0; i < count * size; i++)
		block[i] = 0;
	return block;
}

void *realloc(void *block, size_t size)
{
	free(block);
	return malloc(size);
}

int main(void)
{
	free(calloc(1, 8));
	free(realloc(malloc(8), 8));
	comeback_count = 0;
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		for (unsigned i = 0; i < ROUNDS; i++) {
			void *volatile block = malloc(24);
			free(block);
			free(NULL);
		}
		if (comeback_count != ROUNDS)
			speak_fail("it came back %u times", comeback_count);
		speak_add("%u", comeback_count);
		comeback_count = 0;
		speak_send();
	}
	_exit(0);
}
