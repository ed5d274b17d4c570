/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of a file's symbols may be among some names: a node has hundreds of thousands, of which a
 * dozen matter. The first characters tell them from nearly all others.
 */
#pragma once

#include <string.h>

#include "format/base.h"

/* Of the names in a namespace of C++ the first sixteen may be the same. */
#define BEGINNING_BYTES 24u
#define BEGINNING_BITS	12u

struct beginnings {
	uint64_t bit[(1u << BEGINNING_BITS) / 64];
};

/* Below 2^BEGINNING_BITS, of that part of the name. The factors are odd numbers of chance. */
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

/* False: none of the names that were added is this one. */
static inline bool beginnings_may_have(const struct beginnings *beginnings, const char *name)
{
	uint32_t hash = beginning_hash(name);
	return beginnings->bit[hash / 64] >> hash % 64 & 1;
}
