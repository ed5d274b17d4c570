/* SPDX-License-Identifier: Apache-2.0
 *
 * libguest.so, a library for visit.c: allocates in its constructor, when it is called, and in its
 * destructor. Frees only the block of GUEST_TAKEN_BYTES. libguest-large.so has GUEST_FUNCTIONS more
 * functions, each with its unwind information.
 */
#include <stdlib.h>

#include "tests/targets/guest.h"

void guest_run(int count);

#ifdef GUEST_FUNCTIONS
#define GUEST_TEXT_OF(number) #number
#define GUEST_TEXT(number)    GUEST_TEXT_OF(number)
__asm__("	.rept " GUEST_TEXT(GUEST_FUNCTIONS) "\n	.cfi_startproc\n	push %rbx\n"
						    "	.cfi_adjust_cfa_offset 8\n	pop "
						    "%rbx\n	.cfi_adjust_cfa_offset -8\n"
						    "	ret\n	.cfi_endproc\n	.endr\n");
#endif

static void *volatile taken, *volatile left;

static __attribute__((constructor)) void begin(void)
{
	for (int i = 0; i < GUEST_CONSTRUCTED; i++)
		left = malloc(GUEST_CONSTRUCTED_BYTES);
	taken = malloc(GUEST_TAKEN_BYTES);
}

static __attribute__((destructor)) void end(void)
{
	free(taken);
	left = malloc(GUEST_DESTROYED_BYTES);
}

void guest_run(int count)
{
	for (int i = 0; i < count; i++)
		left = malloc(GUEST_RUN_BYTES);
}
