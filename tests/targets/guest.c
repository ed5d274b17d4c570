/* SPDX-License-Identifier: Apache-2.0
 *
 * libguest.so, a library for visit.c: allocates in its constructor, when it is called, and in its
 * destructor. Nothing is given back, but what the constructor has taken.
 */
#include <stdlib.h>

#include "tests/targets/guest.h"

void guest_run(int count);

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
