/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rules.h"

#include "agent/config.h"
#include "agent/sys.h"

_Static_assert(ABI_CACHE_SETS == 1024, "rules_find and the tag width agree");

/* Whether [address, address + bytes) lies in the read-only area of the daemon's tables. */
static bool in_tables(const struct abi_config *config, uint64_t address, uint64_t bytes)
{
	uint64_t offset = address - config_image(config);
	return (address & 7) == 0 && offset >= ABI_UNWIND_OFF && offset < ABI_SHARED_OFF &&
	       bytes <= ABI_SHARED_OFF - offset;
}

const struct abi_snapshot *rules_checked(
	const struct abi_config *config, const struct abi_snapshot *snapshot)
{
	uint64_t address = (uint64_t)snapshot;
	if (!in_tables(config, address, sizeof(struct abi_snapshot)))
		return NULL;
	uint64_t bytes =
		sizeof(*snapshot) + (uint64_t)snapshot->range_count * sizeof(struct abi_range);
	uint64_t cache_offset = snapshot->cache - config_image(config) - ABI_CACHES_OFF;
	if (!in_tables(config, address, bytes) || snapshot->cache_sets != ABI_CACHE_SETS ||
		cache_offset > (ABI_CACHE_COUNT - 1) * ABI_CACHE_BYTES || snapshot->cache & 7)
		return NULL;
	return snapshot;
}

static const struct abi_range *range_find(const struct abi_snapshot *snapshot, uint64_t pc)
{
	uint64_t first = 0, count = snapshot->range_count;
	while (count > 0) {
		const struct abi_range *middle = &snapshot->range[first + count / 2];
		if (pc < middle->lo) {
			count /= 2;
		} else if (pc >= middle->hi) {
			first += count / 2 + 1;
			count -= count / 2 + 1;
		} else {
			return middle;
		}
	}
	return NULL;
}

/* Whether an array of `count` elements at `offset` lies within a table of `bytes` bytes. */
static bool array_fits(uint32_t bytes, uint32_t offset, uint64_t count, uint32_t element_bytes)
{
	return offset % element_bytes == 0 && offset <= bytes &&
	       count * element_bytes <= bytes - offset;
}

static bool table_fits(const struct abi_config *config, uint64_t address)
{
	if (!in_tables(config, address, sizeof(struct abi_table)))
		return false;
	const struct abi_table *table = (const struct abi_table *)address;
	uint32_t bytes = table->bytes;
	return table->magic == ABI_TABLE_MAGIC && in_tables(config, address, bytes) &&
	       array_fits(bytes, table->granule_off, (uint64_t)table->granule_count + 1, 4) &&
	       array_fits(bytes, table->pc_off, table->row_count, 2) &&
	       array_fits(bytes, table->index_off, table->row_count, 2) &&
	       array_fits(bytes, table->rule_off, table->rule_count, 4);
}

/* The rule at `vaddr`; NONE if the table has none. */
static uint32_t table_find(const struct abi_table *table, uint64_t vaddr)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *granule = (const uint32_t *)(base + table->granule_off);
	const uint16_t *row_pc = (const uint16_t *)(base + table->pc_off);
	const uint16_t *row_rule = (const uint16_t *)(base + table->index_off);
	const uint32_t *rule = (const uint32_t *)(base + table->rule_off);

	uint64_t g = (vaddr - table->lo) / ABI_GRANULE_BYTES;
	if (vaddr < table->lo || g >= table->granule_count)
		return ABI_RULE_NONE;
	uint32_t row = granule[g], end = granule[g + 1];
	if (row >= end || end > table->row_count)
		return ABI_RULE_NONE;
	while (row + 1 < end && row_pc[row + 1] <= vaddr % ABI_GRANULE_BYTES)
		row++;
	return row_rule[row] < table->rule_count ? rule[row_rule[row]] : ABI_RULE_NONE;
}

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
static const uint8_t push_rbp[] = {0x55};
static const uint8_t mov_rsp_rbp[] = {0x48, 0x89, 0xe5};
static const uint8_t ret[] = {0xc3};
static const uint8_t jmp_real[] = {0xff, 0x61, 0x08}; /* jmp *8(%rcx): new_entry.S */
static const uint8_t pad_drop[ABI_PAD_DROP_BYTES] = ABI_PAD_DROP;

static bool code_is(uint64_t pc, uint64_t end, const uint8_t *bytes, uint64_t count)
{
	const uint8_t *code = (const uint8_t *)pc;
	if (end - pc < count)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		if (code[i] != bytes[i])
			return false;
	}
	return true;
}

/*
 * Only the hook's frame matters: from any other function of the agent rbp leads outwards to the
 * hook's frame, or to the caller of a hook. Hooks are compiled so that their code shows if the
 * frame exists (scripts/check-agent): not yet before `push %rbp; mov %rsp,%rbp`, no longer at `ret`
 * or at the jump that ends new_entry.S. Thunks and guards have no frame. For a return address, `pc`
 * is one too low and lies within the call.
 */
static uint32_t rule_of_agent(const struct abi_config *config, uint64_t pc)
{
	uint64_t lo, frames_lo, hi;
	if (pc - config_image(config) < ABI_TEXT_OFF)
		return abi_rule_make(ABI_RULE_RSP, 1, 0) | RULES_HIDDEN;
	sys_agent_code(&lo, &frames_lo, &hi);
	if (pc < lo || pc >= hi)
		return RULES_OUTSIDE;
	if (pc < frames_lo || code_is(pc, hi, endbr64, sizeof(endbr64)) ||
		code_is(pc, hi, push_rbp, 1) || code_is(pc, hi, ret, 1) ||
		code_is(pc, hi, jmp_real, sizeof(jmp_real)))
		return abi_rule_make(ABI_RULE_RSP, 1, 0) | RULES_HIDDEN;
	if (pc > lo && code_is(pc - 1, hi, push_rbp, 1) && code_is(pc, hi, mov_rsp_rbp, 3))
		return abi_rule_make(ABI_RULE_RSP, 2, 2) | RULES_HIDDEN;
	return abi_rule_make(ABI_RULE_FRAME, 0, 0) | RULES_HIDDEN;
}

/* Words pushed below the return address before this instruction of a bridge. */
static uint64_t words_in_bridge(uint64_t pc)
{
	const struct abi_bridge *bridge = (const struct abi_bridge *)(pc & ~63ull);
	uint64_t words = 0, at = pc - (uint64_t)bridge->code;
	for (unsigned i = 0; i < ABI_BRIDGE_STEPS && bridge->step[i].from; i++)
		if (at < sizeof(bridge->code) && at >= bridge->step[i].from)
			words = bridge->step[i].words;
	return words;
}

/* The rule in pads and bridges: code before, and in place of, the first instructions of a function
 * that is hooked at its entry. */
static uint32_t rule_of_near(uint64_t pc, uint64_t offset)
{
	uint64_t words = 1;
	if (offset >= ABI_NEAR_BRIDGES_OFF)
		words += words_in_bridge(pc);
	else if (code_is(pc, pc + ABI_NEAR_BRIDGES_OFF - offset, pad_drop, sizeof(pad_drop)))
		words += ((const uint8_t *)pc)[ABI_PAD_DROP_BYTES] / 8;
	return abi_rule_make(ABI_RULE_RSP, (int)words, 0) | RULES_HIDDEN;
}

uint32_t rules_find_slow(
	const struct abi_config *config, const struct abi_snapshot *snapshot, uint64_t pc)
{
	if (pc >> 47)
		return RULES_OUTSIDE;
	if (pc - config_image(config) < ABI_STATE_OFF)
		return rule_of_agent(config, pc);
	for (unsigned i = 0; i < ABI_NEAR_MAX && config->near[i]; i++)
		if (pc - config->near[i] < ABI_NEAR_BYTES)
			return rule_of_near(pc, pc - config->near[i]);
	const struct abi_range *range = range_find(snapshot, pc);
	if (!range)
		return RULES_OUTSIDE;
	uint32_t rule;
	if (range->table == 0)
		rule = abi_rule_make(ABI_RULE_FRAME, 0, 0);
	else if (range->table & ABI_RANGE_RULE)
		rule = (uint32_t)range->table;
	else if (table_fits(config, range->table))
		rule = table_find((const struct abi_table *)range->table, pc - range->bias);
	else
		rule = ABI_RULE_NONE;
	rule &= (1u << ABI_RULE_BITS) - 1;
	if (abi_rule_kind(rule) == ABI_RULE_NONE)
		return ABI_RULE_NONE;

	uint64_t x = abi_cache_mix(pc);
	uint64_t *set = (uint64_t *)snapshot->cache + (x & (ABI_CACHE_SETS - 1)) * 2;
	store_relaxed(&set[1], load_relaxed(&set[0]));
	store_relaxed(&set[0], x >> 10 << ABI_RULE_BITS | rule);
	return rule;
}
