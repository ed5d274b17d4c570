/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/near.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"

#define SPACE_LO    0x1000000ull /* nothing below 16 MiB: null pointers with large offsets */
#define SPACE_HI    0x7ffffffff000ull
#define MARGIN	    0x100000ull	 /* distance to other mappings */
#define GROWTH	    0x4000000ull /* distance below stacks, which grow: 64 MiB */
#define BRIDGES_MAX (HT_PAGE_BYTES / sizeof(struct abi_bridge))
#define HOOKS_MAX   256u

struct area {
	raddr_t lo;
	size_t bridges;
};

struct plan {
	const struct proc_maps *maps;
	struct near_hook *hook;
	size_t count;
	struct area area[ABI_NEAR_MAX];
	size_t area_count, area_max;
};

/* Room to leave above a mapping. The program's heap may grow by as much again: if it could not,
 * allocators would have other ways, but the program would behave differently. */
static uint64_t room_above(const struct proc_map *map)
{
	uint64_t bytes = map->hi - map->lo;
	return strcmp(map->name, "[heap]") == 0 && bytes > MARGIN ? bytes : MARGIN;
}

static bool is_free(const struct proc_maps *maps, raddr_t lo)
{
	raddr_t hi = lo + ABI_NEAR_BYTES;
	if (lo < SPACE_LO || lo > SPACE_HI - ABI_NEAR_BYTES)
		return false;
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->map[i];
		uint64_t below = strcmp(map->name, "[stack]") == 0 ? GROWTH : MARGIN;
		if (lo < map->hi + room_above(map) && hi + below > map->lo)
			return false;
	}
	return true;
}

static bool overlaps_area(const struct plan *plan, raddr_t lo)
{
	for (size_t i = 0; i < plan->area_count; i++)
		if (lo < plan->area[i].lo + ABI_NEAR_BYTES &&
			lo + ABI_NEAR_BYTES > plan->area[i].lo)
			return true;
	return false;
}

static const struct bridge *bridge_of(const struct near_hook *hook)
{
	return &hook->bridge[hook->chosen];
}

static raddr_t pad_end(const struct bridge *bridge)
{
	return bridge->pad + bridge_pad_bytes(bridge);
}

static bool pad_is_free(const struct plan *plan, const struct bridge *bridge)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct bridge *other = bridge_of(&plan->hook[i]);
		if (plan->hook[i].at && bridge->pad < pad_end(other) &&
			pad_end(bridge) > other->pad)
			return false;
	}
	return true;
}

static bool holds_pad(const struct area *area, const struct bridge *bridge)
{
	return bridge->pad >= area->lo && pad_end(bridge) <= area->lo + ABI_NEAR_BRIDGES_OFF;
}

static raddr_t next_bridge(const struct area *area)
{
	return area->bridges < BRIDGES_MAX
		       ? area->lo + ABI_NEAR_BRIDGES_OFF + area->bridges * sizeof(struct abi_bridge)
		       : 0;
}

/* Any area will do from which the instruction in the bridge reaches the address it refers to. */
static bool place_bridge(struct plan *plan, struct near_hook *hook)
{
	struct abi_bridge made;
	for (size_t i = 0; i < plan->area_count; i++) {
		raddr_t at = next_bridge(&plan->area[i]);
		if (!at || !bridge_make(bridge_of(hook), at, &made))
			continue;
		plan->area[i].bridges++;
		hook->at = at;
		return true;
	}
	return false;
}

static bool place(struct plan *plan, struct near_hook *hook)
{
	const struct bridge *bridge = bridge_of(hook);
	for (size_t i = 0; i < plan->area_count; i++)
		if (holds_pad(&plan->area[i], bridge))
			return pad_is_free(plan, bridge) && place_bridge(plan, hook);
	return false;
}

static bool add_area(struct plan *plan, raddr_t lo)
{
	if (plan->area_count == plan->area_max || !is_free(plan->maps, lo) ||
		overlaps_area(plan, lo))
		return false;
	plan->area[plan->area_count++] = (struct area){.lo = lo};
	return true;
}

/* Returns the lowest pad that can share an area with the pad of `bridge`. */
static raddr_t lowest_with(const struct plan *plan, const struct bridge *bridge)
{
	raddr_t lowest = bridge->pad;
	for (size_t i = 0; i < plan->count; i++) {
		raddr_t other = bridge_of(&plan->hook[i])->pad;
		if (!plan->hook[i].at && other < lowest &&
			bridge->pad - other < ABI_NEAR_BRIDGES_OFF - 2 * HT_PAGE_BYTES)
			lowest = other;
	}
	return lowest;
}

static bool add_area_at(struct plan *plan, const struct bridge *bridge)
{
	raddr_t page = ht_align_down(bridge->pad, HT_PAGE_BYTES);
	if (add_area(plan, ht_align_down(lowest_with(plan, bridge), HT_PAGE_BYTES)))
		return true;
	for (raddr_t back = 0; back < ABI_NEAR_BRIDGES_OFF - HT_PAGE_BYTES; back += HT_PAGE_BYTES)
		if (back < page && add_area(plan, page - back))
			return true;
	return false;
}

static int compare_hooks(const void *a, const void *b)
{
	const struct near_hook *const *left = a, *const *right = b;
	raddr_t x = bridge_of(*left)->pad, y = bridge_of(*right)->pad;
	if ((*left)->needed != (*right)->needed)
		return (*left)->needed ? -1 : 1;
	return (x > y) - (x < y);
}

static bool place_anywhere(struct plan *plan, struct near_hook *hook)
{
	return place(plan, hook) || (add_area_at(plan, bridge_of(hook)) && place(plan, hook));
}

/* Prefers the hook's first bridge, even if that needs a new area; then another in an existing area;
 * then another in a new area. */
static void place_one(struct plan *plan, struct near_hook *hook)
{
	if (place_anywhere(plan, hook))
		return;
	for (hook->chosen = 1; hook->chosen < hook->count; hook->chosen++)
		if (place(plan, hook))
			return;
	for (hook->chosen = 1; hook->chosen < hook->count; hook->chosen++)
		if (place_anywhere(plan, hook))
			return;
	hook->chosen = 0;
}

/* Places the needed functions first, then the others while areas are left. */
static void place_all(struct plan *plan)
{
	struct near_hook *sorted[HOOKS_MAX];
	for (size_t i = 0; i < plan->count; i++)
		sorted[i] = &plan->hook[i];
	if (plan->count)
		qsort(sorted, plan->count, sizeof(*sorted), compare_hooks);
	for (size_t i = 0; i < plan->count; i++)
		place_one(plan, sorted[i]);
}

struct ht_err *near_place(const struct proc_maps *maps, size_t area_max, struct near_hook *hook,
	size_t count, raddr_t ret_near[ABI_NEAR_MAX], size_t *ret_near_count)
{
	struct plan plan = {.maps = maps, .hook = hook, .count = count, .area_max = area_max};
	if (count > HOOKS_MAX)
		return ht_err_new(HT_ERR_REFUSED,
			"more than %u functions cannot be hooked at their entry", HOOKS_MAX);
	for (size_t i = 0; i < count; i++)
		hook[i].at = hook[i].chosen = 0;
	place_all(&plan);
	memset(ret_near, 0, ABI_NEAR_MAX * sizeof(*ret_near));
	for (size_t i = 0; i < plan.area_count; i++)
		ret_near[i] = plan.area[i].lo;
	*ret_near_count = plan.area_count;
	return NULL;
}

bool near_is_area(const struct proc_map *map)
{
	return map->exec && map->offset >= ABI_NEAR_OFF && map->offset < ABI_SHARED_OFF &&
	       ours_is(map->name);
}

struct ht_err *near_find(
	const struct proc *proc, const struct image_file *file, raddr_t ret[ABI_NEAR_MAX])
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	size_t count = 0;
	memset(ret, 0, ABI_NEAR_MAX * sizeof(*ret));
	HT_TRY(proc_maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count && count < ABI_NEAR_MAX; i++) {
		const struct proc_map *map = &maps.map[i];
		if (near_is_area(map) && map->inode == file->inode &&
			makedev(map->dev_major, map->dev_minor) == file->dev)
			ret[count++] = map->lo - (map->offset - ABI_NEAR_OFF) % ABI_NEAR_BYTES;
	}
	return NULL;
}

uint8_t *near_local(const struct image *image, const raddr_t near[ABI_NEAR_MAX], raddr_t addr)
{
	for (size_t i = 0; i < ABI_NEAR_MAX && near[i]; i++)
		if (addr - near[i] < ABI_NEAR_BYTES)
			return image->local + ABI_NEAR_OFF + i * ABI_NEAR_BYTES + (addr - near[i]);
	return NULL;
}
