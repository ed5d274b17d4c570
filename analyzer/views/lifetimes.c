/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/lifetimes.h"

#include <string.h>

/* Blocks that were freed in one bucket. */
struct deaths {
	uint64_t blocks, bytes, lifetime_us;
};

static void add(struct lifetimes *lifetimes, const struct deaths *deaths)
{
	if (!deaths->blocks)
		return;
	const double mean_ns = (double)deaths->lifetime_us / (double)deaths->blocks * 1000;
	const unsigned class = cube_size_class(mean_ns < 1e18 ? (uint64_t)mean_ns : UINT64_MAX);
	lifetimes->blocks[class] += deaths->blocks;
	lifetimes->bytes[class] += deaths->bytes;
}

/* Adds blocks that died in a later bucket than that of their birth, and subtracts them from
 * `within`. */
static void add_survivors(
	const struct view *view, uint32_t site, struct deaths *within, struct lifetimes *ret)
{
	const struct cube *cube = &view->analysis->cube;
	for (uint32_t i = cube->first_survivor[site]; i < cube->first_survivor[site + 1]; i++) {
		const struct cube_survivor *survivor = &cube->survivor[i];
		const struct deaths deaths = {
			survivor->blocks, survivor->bytes, survivor->lifetime_us};
		if (survivor->death < view->window.from || survivor->death >= view->window.to)
			continue;
		struct deaths *bucket = &within[survivor->death - view->window.from];
		bucket->blocks -= deaths.blocks;
		bucket->bytes -= deaths.bytes;
		bucket->lifetime_us -= deaths.lifetime_us;
		if (survivor->birth >= view->window.from)
			add(ret, &deaths);
	}
}

static void add_site(const struct view *view, uint32_t site, struct lifetimes *ret)
{
	const struct cube *cube = &view->analysis->cube;
	struct deaths within[TIMELINE_STEPS] = {0};
	for (uint32_t i = cube->first_cell[site]; i < cube->first_cell[site + 1]; i++) {
		const struct cube_cell *cell = &cube->cell[i];
		if (cell->bucket < view->window.from || cell->bucket >= view->window.to)
			continue;
		struct deaths *bucket = &within[cell->bucket - view->window.from];
		bucket->blocks += cell->counts.frees;
		bucket->bytes += cell->counts.freed_bytes;
		bucket->lifetime_us += cell->counts.lifetime_us;
	}
	add_survivors(view, site, within, ret);
	for (uint32_t i = 0; i < view->window.to - view->window.from; i++)
		add(ret, &within[i]);
}

void lifetimes_find(const struct view *view, struct lifetimes *ret)
{
	const struct cube *cube = &view->analysis->cube;
	*ret = (struct lifetimes){0};
	if (view->is_whole && !query_filters_stacks(&view->query)) {
		memcpy(ret->blocks, cube->lifetime_blocks, sizeof(ret->blocks));
		memcpy(ret->bytes, cube->lifetime_bytes, sizeof(ret->bytes));
		return;
	}
	ret->is_estimate = true;
	for (uint32_t i = 0; i < cube->site_count; i++)
		if (!sums_are_zero(&view->sums[i]))
			add_site(view, i, ret);
}
