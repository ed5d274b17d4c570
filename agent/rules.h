/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the unwind rule of a PC by the snapshot's cache and tables (format/abi_unwind.h). No access
 * leaves them, even if their content is hostile.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"
#include "format/abi_unwind.h"

/*
 * Flag of a rule: the PC lies in the agent, which a signal handler has interrupted or to which an
 * allocator will return. The walk passes such frames but does not record them.
 */
#define RULES_HIDDEN (1u << 31)

/* Not a rule, although RULES_HIDDEN is set in it: the PC lies in no known executable range. */
#define RULES_OUTSIDE UINT32_MAX

/* Returns `snapshot`, or NULL if it does not fit its area. */
const struct abi_snapshot *rules_checked(
	const struct abi_config *config, const struct abi_snapshot *snapshot);

/* The snapshot in force; NULL if there is none or it does not fit its area. */
static inline const struct abi_snapshot *rules_snapshot(const struct abi_config *config)
{
	return rules_checked(config, (const struct abi_snapshot *)load_acquire(&config->unwind));
}

/* rules_find without the cache; fills it. */
uint32_t rules_find_slow(
	const struct abi_config *config, const struct abi_snapshot *snapshot, uint64_t pc);

/*
 * The rule, if it is in the first entry of its cache set; otherwise 0, whose kind is NONE. Bits
 * beyond ABI_RULE_BITS are undefined.
 */
static inline uint32_t rules_cached(const uint64_t *cache, uint64_t pc)
{
	uint64_t x = abi_cache_mix(pc);
	uint64_t entry = load_relaxed(&cache[(x & (ABI_CACHE_SETS - 1)) * 2]);
	return ht_likely(entry >> ABI_RULE_BITS == x >> 10) ? (uint32_t)entry : 0;
}

/* The rule for the instruction at `pc`, or RULES_OUTSIDE. */
static inline uint32_t rules_find(
	const struct abi_config *config, const struct abi_snapshot *snapshot, uint64_t pc)
{
	uint64_t x = abi_cache_mix(pc);
	uint64_t *set = (uint64_t *)snapshot->cache + (x & (ABI_CACHE_SETS - 1)) * 2;
	uint64_t tag = x >> 10;
	for (int way = 0; way < 2; way++) {
		uint64_t entry = load_relaxed(&set[way]);
		if (ht_likely(entry >> ABI_RULE_BITS == tag && entry != 0))
			return entry & ((1u << ABI_RULE_BITS) - 1);
	}
	return rules_find_slow(config, snapshot, pc);
}
