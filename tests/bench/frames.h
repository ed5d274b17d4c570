/* SPDX-License-Identifier: Apache-2.0
 *
 * Call chains with real frames: frames that stay (frames_below), and frames that are left and
 * entered again for each call (frames_above), from the same call sites or from others. Compiled
 * without sibling calls.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define FRAMES_WAYS 64u /* number of different ways through frames_above */

static inline double now_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A separate call site for each `n`: the assembly comment prevents the compiler from merging
 * them. */
#define FRAMES_CALL(n, call)                                                                       \
	call;                                                                                      \
	__asm__ volatile("# place " #n : : : "memory");                                            \
	break;

/* Two bits of `way` choose the call site of each frame; after the 32nd frame they repeat. */
static __attribute__((noinline)) void frames_above(
	unsigned count, uint64_t way, void (*leaf)(uint64_t), uint64_t arg)
{
	if (count == 0) {
		leaf(arg);
		__asm__ volatile("" ::: "memory");
		return;
	}
	uint64_t next = way >> 2 | way << 62;
	switch (way & 3) {
	case 0:
		FRAMES_CALL(0, frames_above(count - 1, next, leaf, arg))
	case 1:
		FRAMES_CALL(1, frames_above(count - 1, next, leaf, arg))
	case 2:
		FRAMES_CALL(2, frames_above(count - 1, next, leaf, arg))
	default:
		FRAMES_CALL(3, frames_above(count - 1, next, leaf, arg))
	}
}

/* The way after `index`: one whose first frame is called from another site. */
static inline unsigned frames_next(unsigned index, uint64_t number)
{
	return (index + 1 + (unsigned)((number * 0x9e3779b97f4a7c15ull >> 40) % 3)) % FRAMES_WAYS;
}

/* The `way` number `index`. All ways differ in the first three frames. */
static inline uint64_t frames_way(unsigned index)
{
	uint64_t mixed = (index + 1) * 0xbf58476d1ce4e5b9ull;
	mixed ^= mixed >> 29;
	return (mixed & ~63ull) | ((index / 4 * 11 + index * 5) % 16 * 4) | index % 4;
}

static __attribute__((noinline)) void frames_below(unsigned count, void (*body)(void *), void *arg)
{
	if (count > 0)
		frames_below(count - 1, body, arg);
	else
		body(arg);
	__asm__ volatile("" ::: "memory");
}
