/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a program hold its threads asleep in its own allocator, libownalloc.so.
 */
#pragma once

#include <stdatomic.h>

#define OWNALLOC_SLOW 4321u

extern atomic_int ownalloc_hold; /* set by the program */
extern atomic_int ownalloc_held; /* set as soon as a thread sleeps */
