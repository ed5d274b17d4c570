/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's own record of its call chain at each allocation: every function pushes its return
 * address; every allocation has a size that no other has, and is recorded with the addresses pushed
 * by then. "save PATH" writes the record, words of 8 bytes:
 *
 *      { size, depth, address[depth] innermost first } ...
 *
 * A function that calls others that push nothing (qsort, a signal's delivery) pushes CHAIN_GAP.
 * In the stack there are, between the addresses before and after CHAIN_GAP, any number of frames of
 * other modules, then one of the program itself. Before the innermost address there may be such
 * frames, too. For C and C++.
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/targets/speak.h"

#define CHAIN_GAP     ((uintptr_t)1)
#define CHAIN_MAX     12000u
#define CHAIN_WORDS   (1u << 23)
#define CHAIN_SIZE_LO 5000u

/* Programs that share their text with a C library put these functions into a section of their
 * own. */
#ifndef CHAIN_SECTION
#define CHAIN_SECTION
#endif

#ifdef __clang__
#define CHAIN_FUNCTION __attribute__((noinline))
#else
#define CHAIN_FUNCTION __attribute__((noinline, noclone)) CHAIN_SECTION
#endif

struct chain_shadow {
	unsigned depth;
	uintptr_t address[CHAIN_MAX];
};

static __attribute__((unused)) struct chain_shadow chain_main_shadow;
static __thread struct chain_shadow *chain_now; /* of the stack that the thread is on */
static uint64_t chain_word[CHAIN_WORDS];
static uint64_t chain_used, chain_size_next = CHAIN_SIZE_LO;

/* Returns the depth before the push, which the caller restores. */
static inline unsigned chain_push(uintptr_t address)
{
	if (chain_now->depth == CHAIN_MAX)
		speak_fail("chain too deep");
	chain_now->address[chain_now->depth] = address;
	unsigned mark = chain_now->depth++;
	__asm__ volatile(
		"" ::
			: "memory"); /* barrier: a signal handler may read the entry from here on */
	return mark;
}

#define CHAIN_ENTER() unsigned chain_mark = chain_push((uintptr_t)__builtin_return_address(0))
/* The empty asm prevents that a call before it becomes a tail call. */
#define CHAIN_LEAVE()                                                                              \
	do {                                                                                       \
		__asm__ volatile("" ::: "memory");                                                 \
		chain_now->depth = chain_mark;                                                     \
	} while (0)
/* Restores the depth in a function that continues after an exception or another exit without
 * CHAIN_LEAVE. */
#define CHAIN_BACK() (chain_now->depth = chain_mark + 1)

static inline size_t chain_size(void)
{
	return __atomic_fetch_add(&chain_size_next, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static void chain_book(size_t size)
{
	unsigned depth = chain_now->depth;
	uint64_t at = __atomic_fetch_add(&chain_used, depth + 2, __ATOMIC_RELAXED);
	if (at + depth + 2 > CHAIN_WORDS)
		speak_fail("books full");
	chain_word[at] = size;
	chain_word[at + 1] = depth;
	for (unsigned i = 0; i < depth; i++)
		chain_word[at + 2 + i] = chain_now->address[depth - 1 - i];
}

/* A macro, because the innermost frame must be that of the function itself. */
#define CHAIN_ALLOC()                                                                              \
	do {                                                                                       \
		size_t chain_bytes = chain_size();                                                 \
		void *volatile chain_ptr = malloc(chain_bytes);                                    \
		chain_book(chain_bytes);                                                           \
		free(chain_ptr);                                                                   \
	} while (0)

static void chain_save(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	const char *from = (const char *)chain_word;
	for (uint64_t left = chain_used * 8; fd >= 0 && left;) {
		ssize_t done = write(fd, from, left);
		if (done <= 0)
			speak_fail("write: errno %d", errno);
		from += done;
		left -= (uint64_t)done;
	}
	if (fd < 0 || close(fd))
		speak_fail("cannot write %s", path);
	chain_used = 0;
}

static inline uint64_t chain_random(void)
{
	static __thread uint64_t seed = 0x2545f4914f6cdd1d;
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}
