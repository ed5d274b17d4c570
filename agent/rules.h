/* SPDX-License-Identifier: Apache-2.0
 *
 * PC -> unwind rule, by the snapshot's cache and tables (format/abi_unwind.h). Whatever these hold,
 * no access leaves them.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"
#include "format/abi_unwind.h"

/*
 * A bit beside the rule: the PC is the agent's own, which a signal handler has interrupted or an
 * allocator will return to. Such frames are walked through, and not part of the program's stack.
 */
#define RULES_HIDDEN (1u << 31)

/* Not a rule, but RULES_HIDDEN is set in it: the PC lies in no known executable range. */
#define RULES_OUTSIDE UINT32_MAX

/* `snapshot`; NULL where it does not fit its area. */
const struct abi_snapshot *rules_checked(
	const struct abi_config *config, const struct abi_snapshot *snapshot);

/* The snapshot in force; NULL when there is none, or none that fits its area. */
static inline const struct abi_snapshot *rules_snapshot(const struct abi_config *config)
{
	return rules_checked(config, (const struct abi_snapshot *)load_acquire(&config->unwind));
}

/* rules_find without the cache; fills it. */
uint32_t rules_find_slow(
	const struct abi_config *config, const struct abi_snapshot *snapshot, uint64_t pc);

/*
 * The rule where it stands at its first place in the cache; else 0, whose kind is NONE. Bits beyond
 * ABI_RULE_BITS may be anything.
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
