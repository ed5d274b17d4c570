/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules are found by PC in tables and cache. In a broken table no lookup reads outside its area.
 */
#include "agent/rules.h"

#include "tests/unit/agent/world.h"

#define BIAS  0x5000000u
#define LO    0x400u /* of the table: a multiple of the granule */
#define TABLE 0x1000u

/* Three granules: rows at +0 and +10; at +0, +1, +255; at +0. */
struct table {
	struct abi_table header;
	uint32_t granule[4];
	uint32_t rule[4];
	uint16_t row_pc[6 + ABI_ROW_PAD];
	uint16_t row_rule[6];
};

static struct abi_snapshot *snapshot;
static struct table *table;

static uint32_t rule_number(unsigned i)
{
	return abi_rule_make(ABI_RULE_RSP, (int)i + 1, 0);
}

static void setup_at(uint64_t table_offset)
{
	world_make();
	snapshot = (struct abi_snapshot *)(world_image + ABI_UNWIND_OFF);
	table = (struct table *)(world_image + table_offset);
	*table = (struct table){
		.header = {.magic = ABI_TABLE_MAGIC,
			.bytes = sizeof(*table),
			.lo = LO,
			.hi = LO + 3 * ABI_GRANULE_BYTES,
			.granule_count = 3,
			.row_count = 6,
			.rule_count = 4,
			.granule_off = offsetof(struct table, granule),
			.pc_off = offsetof(struct table, row_pc),
			.index_off = offsetof(struct table, row_rule),
			.rule_off = offsetof(struct table, rule)},
		.granule = {0, 2, 5, 6},
		.row_pc = {0, 10, 0, 1, 255, 0},
		.row_rule = {0, 1, 2, 1, 3, 0},
		.rule = {rule_number(0), rule_number(1), rule_number(2), ABI_RULE_NONE},
	};
	*snapshot = (struct abi_snapshot){.range_count = 3,
		.cache_sets = ABI_CACHE_SETS,
		.cache = (uint64_t)world_image + ABI_CACHES_OFF};
	snapshot->range[0] = (struct abi_range){0x1000, 0x2000, 0, 0};
	snapshot->range[1] = (struct abi_range){
		BIAS + LO, BIAS + LO + 3 * ABI_GRANULE_BYTES, BIAS, (uint64_t)table};
	snapshot->range[2] = (struct abi_range){1ull << 46, (1ull << 47) - 1, 0, 0};
	world_config->unwind = (uint64_t)snapshot;
}

static void setup(void)
{
	setup_at(ABI_UNWIND_OFF + TABLE);
}

static uint32_t find(uint64_t pc)
{
	return rules_find(world_config, rules_snapshot(world_config), pc);
}

HT_TEST(rows)
{
	setup();
	for (unsigned pass = 0; pass < 2; pass++) {
		uint64_t base = BIAS + LO;
		for (unsigned i = 0; i < 256; i++) {
			ck_assert_uint_eq(find(base + i), rule_number(i < 10 ? 0 : 1));
			ck_assert_uint_eq(find(base + 256 + i), i == 0 ? rule_number(2)
								: i < 255
									? rule_number(1)
									: (uint32_t)ABI_RULE_NONE);
			ck_assert_uint_eq(find(base + 512 + i), rule_number(0));
		}
	}
}

HT_TEST(ranges)
{
	const uint32_t frame = abi_rule_make(ABI_RULE_FRAME, 0, 0);
	setup();
	for (unsigned pass = 0; pass < 2; pass++) {
		ck_assert_uint_eq(find(0xfff), RULES_OUTSIDE);
		ck_assert_uint_eq(find(0x1000), frame);
		ck_assert_uint_eq(find(0x1fff), frame);
		ck_assert_uint_eq(find(0x2000), RULES_OUTSIDE);
		ck_assert_uint_eq(find(BIAS + LO - 1), RULES_OUTSIDE);
		ck_assert_uint_eq(find(BIAS + LO + 768), RULES_OUTSIDE);
		ck_assert_uint_eq(find(1ull << 46), frame);
		ck_assert_uint_eq(find((1ull << 47) - 1), RULES_OUTSIDE);
		ck_assert_uint_eq(find(1ull << 47), RULES_OUTSIDE);
		ck_assert_uint_eq(find(UINT64_MAX), RULES_OUTSIDE);
		ck_assert_uint_eq(find(0), RULES_OUTSIDE);
	}
}

/* Many PCs of one cache set, so that entries push each other out. */
HT_TEST(cache_evicts)
{
	setup();
	snapshot->range[2].lo = 1ull << 40;
	for (unsigned pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < 8; i++) {
			uint64_t base = BIAS + LO + i;
			ck_assert_uint_eq(find(base), rule_number(0));
			ck_assert_uint_eq(find((1ull << 40) + (i << 30)),
				abi_rule_make(ABI_RULE_FRAME, 0, 0));
		}
	}
}

HT_TEST(cache_answers_first)
{
	setup();
	uint64_t pc = BIAS + LO + 3;
	ck_assert_uint_eq(find(pc), rule_number(0));
	table->rule[0] = rule_number(3);
	ck_assert_uint_eq(find(pc), rule_number(0));
	ck_assert_uint_eq(find(pc + 1), rule_number(3));
}

HT_TEST(snapshots_that_do_not_fit)
{
	setup();
	ck_assert_ptr_eq(rules_snapshot(world_config), snapshot);
	const uint64_t bad[] = {0, (uint64_t)snapshot + 4, (uint64_t)world_image,
		(uint64_t)world_image + ABI_SHARED_OFF - 8, (uint64_t)world_image + ABI_SHARED_OFF,
		UINT64_MAX - 7};
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		world_config->unwind = bad[i];
		ck_assert_ptr_null(rules_snapshot(world_config));
	}
	world_config->unwind = (uint64_t)snapshot;
	snapshot->range_count = UINT32_MAX;
	ck_assert_ptr_null(rules_snapshot(world_config));
	snapshot->range_count = 3;
	snapshot->cache_sets *= 2;
	ck_assert_ptr_null(rules_snapshot(world_config));
	snapshot->cache_sets /= 2;
	snapshot->cache += (ABI_CACHE_COUNT - 1) * ABI_CACHE_BYTES;
	ck_assert_ptr_eq(rules_snapshot(world_config), snapshot);
	snapshot->cache += 8;
	ck_assert_ptr_null(rules_snapshot(world_config));
	snapshot->cache = (uint64_t)world_image;
	ck_assert_ptr_null(rules_snapshot(world_config));
}

/* The table ends where its area ends, and behind it nothing is readable. */
HT_TEST(broken_tables)
{
	uint64_t random = 1;
	for (unsigned round = 0; round < 20000; round++) {
		if (round % 2000 == 0) {
			setup_at((ABI_SHARED_OFF - sizeof(*table)) & ~7ull);
			ck_assert_int_eq(
				mprotect(world_image + ABI_SHARED_OFF, HT_PAGE_BYTES, PROT_NONE),
				0);
		}
		struct table good = *table;
		for (unsigned i = 0; i < 3; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			uint32_t *words = (uint32_t *)table;
			uint32_t value = (uint32_t)(random >> 32);
			words[random % (sizeof(*table) / 4)] = value >> (random >> 20) % 32;
		}
		for (unsigned i = 0; i < 12; i++) {
			uint64_t pc = BIAS + LO + i * 64 + round % 64;
			uint32_t rule = rules_find_slow(world_config, snapshot, pc);
			ck_assert_uint_lt(rule, 1u << ABI_RULE_BITS);
		}
		*table = good;
	}
}

/* At the entry of a function that is hooked there, only the return address is pushed; later, in the
 * bridge, what the function pushes. None of these PCs is the program's. */
HT_TEST(near_areas)
{
	uint8_t *area = mmap(
		NULL, ABI_NEAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct abi_bridge *bridge = (void *)(area + ABI_NEAR_BRIDGES_OFF);
	setup_at(ABI_UNWIND_OFF + HT_PAGE_BYTES);
	struct abi_config *config = world_config;
	ck_assert_ptr_ne(area, MAP_FAILED);
	config->near[1] = (uint64_t)area;
	config->near[0] = (uint64_t)area + (1ull << 30);
	bridge[1].step[0] = (struct abi_bridge_step){2, 1};
	bridge[1].step[1] = (struct abi_bridge_step){6, 3};
	const uint32_t entry = abi_rule_make(ABI_RULE_RSP, 1, 0) | RULES_HIDDEN;
	const uint32_t elsewhere = abi_rule_make(ABI_RULE_FRAME, 0, 0);
	const struct {
		const void *pc;
		uint32_t rule;
	} cases[] = {{area, entry}, {area + ABI_NEAR_BRIDGES_OFF - 1, entry},
		{bridge[0].code, entry}, {bridge[0].code + 2, entry}, {bridge[1].code, entry},
		{bridge[1].code + 4, abi_rule_make(ABI_RULE_RSP, 2, 0) | RULES_HIDDEN},
		{bridge[1].code + 6, abi_rule_make(ABI_RULE_RSP, 4, 0) | RULES_HIDDEN},
		{area + ABI_NEAR_BYTES, elsewhere}, {area - 1, elsewhere}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++)
		ck_assert_uint_eq(rules_find_slow(world_config, snapshot, (uint64_t)cases[i].pc),
			cases[i].rule);
	config->near[0] = config->near[1] = 0;
}

HT_SUITE("agent/rules")
