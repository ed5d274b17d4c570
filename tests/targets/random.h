/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that are the same in every run.
 */
#pragma once

#include <stdint.h>

/* xorshift64 (Marsaglia, 2003); a seed is not 0. */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}
