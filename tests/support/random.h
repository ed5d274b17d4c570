/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that look random and are the same in every run: splitmix64. The state is the seed.
 */
#pragma once

#include "format/base.h"

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* From 0 to limit - 1; limit > 0. */
static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return random_next(state) % limit;
}
