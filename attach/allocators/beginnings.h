/* SPDX-License-Identifier: Apache-2.0
 *
 * A filter for symbols: a Node.js binary has hundreds of thousands, of which a dozen matter. A hash
 * of the first characters rejects nearly all others.
 */
#pragma once

#include <string.h>

#include "format/base.h"

/* Names in one namespace of C++ may share their first sixteen characters. */
#define BEGINNING_BYTES 24u
#define BEGINNING_BITS	12u

struct beginnings {
	uint64_t bit[(1u << BEGINNING_BITS) / 64];
};

/* Hash of the beginning, below 2^BEGINNING_BITS. The factors are arbitrary odd numbers. */
static inline uint32_t beginning_hash(const char *name)
{
	uint64_t word[BEGINNING_BYTES / sizeof(uint64_t)] = {0};
	memcpy(word, name, strnlen(name, sizeof(word)));
	uint64_t sum = word[0] * UINT64_C(0x9e3779b97f4a7c15) +
		       word[1] * UINT64_C(0xbf58476d1ce4e5b9) +
		       word[2] * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(sum >> (64 - BEGINNING_BITS));
}

static inline void beginnings_add(struct beginnings *beginnings, const char *name)
{
	uint32_t hash = beginning_hash(name);
	beginnings->bit[hash / 64] |= UINT64_C(1) << hash % 64;
}

/* False: no name that was added equals this one. */
static inline bool beginnings_may_have(const struct beginnings *beginnings, const char *name)
{
	uint32_t hash = beginning_hash(name);
	return beginnings->bit[hash / 64] >> hash % 64 & 1;
}
