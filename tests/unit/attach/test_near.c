/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/near.h"

#include "attach/memory/proc_map.h"
#include "attach/proof/stackscan.h"
#include "tests/support/ht_check.h"

#define PROGRAM 0x555555554000ull
#define GIB	(1ull << 30)
#define MIB	(1ull << 20)

static struct bridge bridge_at(raddr_t pad)
{
	return (struct bridge){.entry = PROGRAM, .first = {0x90}, .bytes = 1, .pad = pad};
}

static struct proc_map map_of(raddr_t lo, uint64_t bytes, char *name)
{
	return (struct proc_map){.lo = lo, .hi = lo + bytes, .name = name};
}

static bool place_one(
	struct proc_map *map, size_t map_count, const struct bridge *bridge, raddr_t *ret_area)
{
	struct proc_maps maps = {.map = map, .count = map_count};
	struct near_hook hook = {.bridge = bridge};
	raddr_t near[ABI_NEAR_MAX];
	size_t count;
	ck_no_err(near_place(&maps, ABI_NEAR_MAX, &hook, 1, near, &count));
	*ret_area = near[0];
	if (!hook.at)
		return false;
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_ge(bridge->pad, near[0]);
	ck_assert_uint_le(bridge->pad + BRIDGE_PAD_BYTES, near[0] + ABI_NEAR_BRIDGES_OFF);
	ck_assert_uint_ge(hook.at, near[0] + ABI_NEAR_BRIDGES_OFF);
	ck_assert_uint_le(hook.at + sizeof(struct abi_bridge), near[0] + ABI_NEAR_BYTES);
	return true;
}

HT_TEST(a_single_place)
{
	char exe[] = "/bin/x", heap[] = "[heap]", stack[] = "[stack]";
	struct bridge bridge = bridge_at(PROGRAM + GIB);
	raddr_t area, there = bridge.pad;
	struct proc_map maps[] = {map_of(PROGRAM, MIB, exe), map_of(there, 4096, exe)};
	ck_assert(place_one(maps, 1, &bridge, &area));
	ck_assert(!place_one(maps, 2, &bridge, &area));
	/* A mapping beside the area, and mappings that may grow towards it. */
	maps[1] = map_of(there - MIB / 2, 4096, exe);
	ck_assert(!place_one(maps, 2, &bridge, &area));
	maps[1] = map_of(there - 3 * MIB, 4096, exe);
	ck_assert(place_one(maps, 2, &bridge, &area));
	maps[1] = map_of(there - 300 * MIB, 200 * MIB, exe);
	ck_assert(place_one(maps, 2, &bridge, &area));
	maps[1] = map_of(there - 300 * MIB, 200 * MIB, heap);
	ck_assert(!place_one(maps, 2, &bridge, &area));
	maps[1] = map_of(there + 50 * MIB, MIB, stack);
	ck_assert(!place_one(maps, 2, &bridge, &area));
	/* A pad below address 0, and one just above it. */
	bridge = bridge_at(0x401000 - GIB);
	ck_assert(!place_one(maps, 0, &bridge, &area));
	bridge = bridge_at(0x11000);
	ck_assert(!place_one(maps, 0, &bridge, &area));
}

/* A mapping on one side leaves the other side free. */
HT_TEST(beside_what_is_there)
{
	char exe[] = "/bin/x";
	struct bridge bridge = bridge_at(PROGRAM + GIB);
	raddr_t area;
	struct proc_map above[] = {map_of(bridge.pad + MIB + 0x8000, MIB, exe)};
	ck_assert(place_one(above, 1, &bridge, &area));
	ck_assert_uint_le(area + ABI_NEAR_BYTES + MIB, above[0].lo);
}

/* A pad may lie across two pages. */
HT_TEST(across_pages)
{
	struct bridge bridge = bridge_at(PROGRAM + GIB + HT_PAGE_BYTES - 3);
	raddr_t area;
	ck_assert(place_one(NULL, 0, &bridge, &area));
}

/* Functions that begin alike share an area, but no two share a pad or a bridge. If there are not
 * enough areas, the hooks that are needed first get their places. */
HT_TEST(many)
{
	struct bridge bridge[30 + ABI_NEAR_MAX + 2];
	struct near_hook hook[HT_ARRAY_SIZE(bridge)];
	struct proc_maps maps = {0};
	raddr_t near[ABI_NEAR_MAX];
	size_t count;
	for (size_t i = 0; i < HT_ARRAY_SIZE(bridge); i++) {
		/* By descending address, so that the order of the hooks is not that of the
		 * addresses. */
		bridge[i] = bridge_at(PROGRAM - i * 0x1000 +
				      (i < 30 ? GIB : (raddr_t) - (int64_t)(32 * MIB * (i - 25))));
		hook[i] = (struct near_hook){
			.bridge = &bridge[i], .needed = i == HT_ARRAY_SIZE(bridge) - 1};
	}
	ck_no_err(near_place(&maps, ABI_NEAR_MAX, hook, HT_ARRAY_SIZE(hook), near, &count));
	ck_assert_uint_eq(count, ABI_NEAR_MAX);
	ck_assert_uint_ne(hook[HT_ARRAY_SIZE(bridge) - 1].at, 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(hook); i++)
		for (size_t j = 0; j < i && hook[i].at; j++)
			ck_assert_uint_ne(hook[i].at, hook[j].at);
	ck_no_err(near_place(&maps, 2, hook, 30, near, &count));
	ck_assert_uint_eq(count, 1);
	for (size_t i = 0; i < 30; i++)
		ck_assert_uint_ne(hook[i].at, 0);
	ck_no_err(near_place(&maps, 0, hook, 30, near, &count));
	ck_assert_uint_eq(count, 0);
}

/* Only one of two pads that overlap can be used. */
HT_TEST(overlapping)
{
	struct bridge bridge[] = {bridge_at(PROGRAM + GIB), bridge_at(PROGRAM + GIB + 13)};
	struct near_hook hook[] = {{.bridge = &bridge[0]}, {.bridge = &bridge[1]}};
	struct proc_maps maps = {0};
	raddr_t near[ABI_NEAR_MAX];
	size_t count;
	ck_no_err(near_place(&maps, ABI_NEAR_MAX, hook, 2, near, &count));
	ck_assert((hook[0].at == 0) != (hook[1].at == 0));
}

/* stackscan_ours accepts each PC in an area, from its first byte to its last. */
HT_TEST(is_ours)
{
	const struct stackscan_ranges ranges = {.near = {GIB, 3 * GIB}};
	ck_assert(stackscan_ours(&ranges, GIB));
	ck_assert(stackscan_ours(&ranges, 3 * GIB + ABI_NEAR_BYTES - 1));
	ck_assert(!stackscan_ours(&ranges, GIB - 1));
	ck_assert(!stackscan_ours(&ranges, 3 * GIB + ABI_NEAR_BYTES));
	ck_assert(!stackscan_ours(&ranges, 1));
}

HT_SUITE("attach/near")
