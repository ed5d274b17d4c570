/* SPDX-License-Identifier: Apache-2.0
 *
 * The sieve rejects no block of words that holds a thunk's address, and nearly all other blocks.
 */
#include "attach/proof/sieve.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"

#define WORDS  64u
#define BYTES  (WORDS * sizeof(uint64_t))
#define ROUNDS 20000u

static const struct stackscan_ranges ranges = {
	.thunk_lo = 0x7f12345f3000, .thunk_hi = 0x7f12345f3000 + HT_PAGE_BYTES};

static uint64_t block[WORDS + SIEVE_PADDING / sizeof(uint64_t)];

static uint64_t random_word(uint64_t *seed)
{
	return random_below(seed, 1ull << 32) << 32 | random_below(seed, 1ull << 32);
}

static void fill(uint64_t *seed)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(block); i++)
		block[i] = i < WORDS ? random_word(seed) : 0;
}

HT_TEST(an_address_passes_at_any_byte)
{
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint64_t seed = round;
		const uint64_t guard = random_word(&seed),
			       address = ranges.thunk_lo + random_below(&seed, HT_PAGE_BYTES);
		const struct sieve sieve = sieve_make(&ranges, guard);
		fill(&seed);
		const size_t at = random_below(&seed, BYTES - sizeof(address) + 1);
		memcpy((uint8_t *)block + at, &address, sizeof(address));
		ck_assert_msg(sieve_may_hold(&sieve, block, WORDS), "round %lu, byte %zu",
			(unsigned long)round, at);
	}
}

/* Mangled as setjmp.S and atexit of glibc do it: xor, then a rotation to the left. */
HT_TEST(a_mangled_address_passes_in_any_word)
{
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint64_t seed = round;
		const uint64_t guard = round % 7 ? random_word(&seed) : 0,
			       address = (ranges.thunk_lo + random_below(&seed, HT_PAGE_BYTES)) ^
					 guard;
		const struct sieve sieve = sieve_make(&ranges, guard);
		fill(&seed);
		const size_t at = random_below(&seed, WORDS);
		block[at] = address << SIEVE_MANGLE_TURN | address >> (64 - SIEVE_MANGLE_TURN);
		ck_assert_msg(sieve_may_hold(&sieve, block, WORDS), "round %lu, word %zu",
			(unsigned long)round, at);
	}
}

/* By chance, fewer than one in five million blocks of this size pass. */
HT_TEST(other_words_are_rejected)
{
	const struct sieve sieve = sieve_make(&ranges, 0x0123456789abcdef);
	size_t passed = 0;
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint64_t seed = round;
		fill(&seed);
		passed += sieve_may_hold(&sieve, block, WORDS);
	}
	ck_assert_uint_le(passed, 1);
	memset(block, 0, sizeof(block));
	ck_assert(!sieve_may_hold(&sieve, block, WORDS));
	/* A number of words that is odd: the rest of the last 16 bytes is padding. */
	block[WORDS - 1] = ranges.thunk_lo;
	ck_assert(sieve_may_hold(&sieve, block, WORDS - 1));
	ck_assert(!sieve_may_hold(&sieve, block, WORDS - 2));
}

HT_SUITE("attach/sieve")
