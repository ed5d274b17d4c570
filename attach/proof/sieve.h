/* SPDX-License-Identifier: Apache-2.0
 *
 * A fast test that rejects nearly all memory without a thunk's address, before a search that
 * checks each word.
 */
#pragma once

#include "attach/proof/stackscan.h"

/* glibc's PTR_MANGLE on x86-64: xor with the pointer guard, then rotation to the left. */
#define SIEVE_MANGLE_TURN 17u

/* Bytes behind the words that sieve_may_hold may read. */
#define SIEVE_PADDING 32u

/* Bits 16 to 47 of an address, and 16 to 46 of a mangled one: those that all thunks have in common,
 * as the thunk page does not cross a border of 64 KiB. */
struct sieve {
	uint32_t plain, mangled;
};

/* `guard`: glibc's pointer guard; 0: unknown. */
struct sieve sieve_make(const struct stackscan_ranges *ranges, uint64_t guard);

/* False: the words contain no thunk's address, at any byte, and no mangled one in an aligned word.
 * Initialised bytes of any value follow the words: SIEVE_PADDING. */
bool sieve_may_hold(const struct sieve *sieve, const uint64_t *words, size_t count);
