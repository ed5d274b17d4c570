/* SPDX-License-Identifier: Apache-2.0
 *
 * When a signal interrupts a thread, the kernel saves its registers on the stack. After the handler
 * they stay below the stack pointer until they are overwritten. If the thread was about to enter a
 * hook, the hook's address is among them, and looks like a pointer that is kept. A program that
 * must keep no such address overwrites that memory.
 */
#pragma once

#include <string.h>

#define FORGET_BYTES (32u << 10) /* more than a handler and the largest signal frame */

/* Overwrites FORGET_BYTES below the caller's frame on the current stack. */
static __attribute__((noinline)) void forget_frames(void)
{
	unsigned char below[FORGET_BYTES];
	memset(below, 0, sizeof(below));
	__asm__ volatile("" : "+m"(below));
}
