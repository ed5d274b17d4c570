/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers, and chains of dependent loads, which measure the latency of memory. Included
 * once, by parts.c.
 */
#pragma once

#include <sys/mman.h>

#include "tests/bench/stage.h"

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

#define LINE_WORDS 8u

static uint64_t *chain, chain_at;

/* Makes a ring through all cache lines of `bytes` bytes, in random order (Sattolo). `advice` is
 * that of madvise. */
static void setup_chain(uint64_t bytes, int advice)
{
	uint64_t lines = bytes / sizeof(uint64_t) / LINE_WORDS;
	static uint64_t mapped;
	if (chain)
		munmap(chain, mapped);
	chain = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chain == MAP_FAILED)
		stage_fail("mmap");
	mapped = bytes;
	madvise(chain, bytes, advice);
	for (uint64_t i = 0; i < lines; i++)
		chain[i * LINE_WORDS] = i * LINE_WORDS;
	for (uint64_t i = lines - 1; i > 0; i--) {
		uint64_t other = random_next() % i * LINE_WORDS, old = chain[i * LINE_WORDS];
		chain[i * LINE_WORDS] = chain[other];
		chain[other] = old;
	}
	chain_at = 0;
}

static void setup_chain_near(void)
{
	setup_chain(16 << 10, MADV_NOHUGEPAGE);
}

static void setup_chain_second(void)
{
	setup_chain(512 << 10, MADV_NOHUGEPAGE);
}

static void setup_chain_far(void)
{
	setup_chain(256 << 20, MADV_HUGEPAGE);
}

static void setup_chain_paged(void)
{
	setup_chain(256 << 20, MADV_NOHUGEPAGE);
}

static void run_chain(uint64_t times)
{
	uint64_t at = chain_at;
	for (uint64_t i = 0; i < times; i++)
		at = chain[at];
	chain_at = at;
}
