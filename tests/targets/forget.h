/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel saves the registers of a thread that a signal interrupts on its stack, and they stay
 * there below whatever the thread has in use, until something else comes to lie there. One that was
 * just about to enter a hook has left the hook's address there: a pointer, as far as anybody can
 * tell. A program that is to have none must wipe it out.
 */
#pragma once

#include <string.h>

#define FORGET_BYTES (32u << 10) /* what handlers, and frames of the largest registers, take */

/* Clears what lies below the caller's frame on the stack that it is on. */
static __attribute__((noinline)) void forget_frames(void)
{
	unsigned char below[FORGET_BYTES];
	memset(below, 0, sizeof(below));
	__asm__ volatile("" : "+m"(below));
}
