/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/window.h"

#include <stdlib.h>

struct window window_whole(const struct cube *cube)
{
	return (struct window){0, (uint32_t)cube->timeline.count};
}

struct window window_snap(const struct cube *cube, uint64_t from_ns, uint64_t to_ns)
{
	const uint64_t count = cube->timeline.count, step_ns = cube->step_ns;
	uint64_t from = from_ns / step_ns;
	uint64_t to = to_ns / step_ns + (to_ns % step_ns != 0);
	if (to > count)
		to = count;
	if (from >= count)
		from = count ? count - 1 : 0;
	if (to <= from)
		to = from < count ? from + 1 : from;
	return (struct window){(uint32_t)from, (uint32_t)to};
}

bool window_is_whole(const struct cube *cube, struct window window)
{
	return window.from == 0 && window.to == cube->timeline.count;
}

uint64_t window_start_ns(const struct cube *cube, struct window window)
{
	return window.from * cube->step_ns;
}

uint64_t window_end_ns(const struct cube *cube, struct window window)
{
	return window.to * cube->step_ns;
}

struct window_peak window_peak(const struct cube *cube, struct window window)
{
	struct window_peak peak = {.bucket = window.from};
	if (window_is_whole(cube, window)) {
		peak.bytes = cube->peak_bytes;
		peak.time_ns = cube->peak_time_ns;
		return peak;
	}
	for (uint32_t i = window.from; i < window.to; i++) {
		uint64_t bytes = cube->timeline.step[i].live_max_bytes;
		if (bytes <= peak.bytes)
			continue;
		peak.bytes = bytes;
		peak.bucket = i;
		peak.time_ns = (i + 1) * cube->step_ns;
	}
	return peak;
}

struct window_spread window_spread(const struct cube *cube, uint32_t site)
{
	const struct sample_variance *variance = &cube->site[site].variance;
	double blocks = 0, bytes = 0;
	for (uint32_t i = cube->first_cell[site]; i < cube->first_cell[site + 1]; i++) {
		blocks += (double)cube->cell[i].counts.allocations;
		bytes += (double)cube->cell[i].counts.allocated_bytes;
	}
	return (struct window_spread){bytes > 0 ? variance->bytes / bytes : 0,
		blocks > 0 ? variance->blocks / blocks : 0};
}

static bool is_in(struct window window, uint32_t bucket)
{
	return window.from <= bucket && bucket < window.to;
}

static void add_cell(struct sums *sums, const struct cube_cell *cell, struct window window)
{
	const struct cube_counts *counts = &cell->counts;
	if (cell->bucket >= window.to)
		return;
	sums->live_blocks += (int64_t)(counts->allocations - counts->frees);
	sums->live_bytes += (int64_t)(counts->allocated_bytes - counts->freed_bytes);
	if (cell->bucket < window.from)
		return;
	sums->samples += counts->samples;
	sums->allocations += counts->allocations;
	sums->allocated_bytes += counts->allocated_bytes;
	sums->frees += counts->frees;
	sums->freed_bytes += counts->freed_bytes;
	sums->temporary += counts->temporary;
	sums->lifetime_us += counts->lifetime_us;
	sums->growth_blocks += (int64_t)(counts->allocations - counts->frees);
	sums->growth_bytes += (int64_t)(counts->allocated_bytes - counts->freed_bytes);
}

/* Subtracts frees of blocks that were allocated before the window. */
static void take_older(
	struct sums *sums, const struct cube_survivor *survivor, struct window window)
{
	if (survivor->birth >= window.from || !is_in(window, survivor->death))
		return;
	sums->frees -= survivor->blocks;
	sums->freed_bytes -= survivor->bytes;
	sums->temporary -= survivor->temporary;
	sums->lifetime_us -= survivor->lifetime_us;
}

/* Counts the frees after the window of blocks that were allocated in it. */
static void add_later(struct sums *sums, const struct cube_survivor *survivor, struct window window)
{
	if (!is_in(window, survivor->birth) || survivor->death < window.to)
		return;
	sums->later_frees += survivor->blocks;
	sums->later_freed_bytes += survivor->bytes;
}

static void add_peaks(const struct cube *cube, struct window window, struct sums *sums)
{
	if (window_is_whole(cube, window)) {
		for (size_t i = 0; i < cube->site_count; i++)
			sums[i].peak_bytes = cube->site[i].peak_bytes;
		return;
	}
	const struct window_peak peak = window_peak(cube, window);
	for (size_t i = 0; i < cube->cell_count; i++) {
		const struct cube_cell *cell = &cube->cell[i];
		if (cell->bucket <= peak.bucket)
			sums[cell->site].peak_bytes +=
				cell->counts.allocated_bytes - cell->counts.freed_bytes;
	}
}

static struct ht_err *new_sums(const struct cube *cube, struct sums **ret)
{
	*ret = calloc(cube->site_count + 1, sizeof(**ret));
	return *ret ? NULL
		    : ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", cube->site_count);
}

/* Sets the variances of a site's sums in proportion to the variance of all its allocations in the
 * trace. */
static void estimate(const struct cube *cube, struct sums *sums)
{
	for (size_t site = 0; cube->sample_bytes && site < cube->site_count; site++) {
		const struct window_spread spread = window_spread(cube, (uint32_t)site);
		sums_estimate(&sums[site], spread.of_byte, spread.of_block);
	}
}

struct ht_err *window_sums(const struct cube *cube, struct window window, struct sums **ret)
{
	HT_TRY(new_sums(cube, ret));
	for (size_t i = 0; i < cube->cell_count; i++)
		add_cell(&(*ret)[cube->cell[i].site], &cube->cell[i], window);
	const bool concerns_all = window_is_whole(cube, window) && !cube->has_settled;
	for (size_t i = 0; i < cube->survivor_count && !concerns_all; i++) {
		take_older(&(*ret)[cube->survivor[i].site], &cube->survivor[i], window);
		add_later(&(*ret)[cube->survivor[i].site], &cube->survivor[i], window);
	}
	add_peaks(cube, window, *ret);
	estimate(cube, *ret);
	return NULL;
}

/* Replaces the counts of allocations by those of live blocks. The caller adds the frees of these
 * blocks. */
static void turn_alive(struct sums *sums)
{
	sums->allocations = sums_outstanding_blocks(sums);
	sums->allocated_bytes = sums_outstanding_bytes(sums);
	/* The number of recorded samples still live is unknown; this is an upper bound. */
	if (sums->samples > sums->allocations)
		sums->samples = sums->allocations;
	sums->frees = sums->freed_bytes = sums->temporary = sums->lifetime_us = 0;
	sums->later_frees = sums->later_freed_bytes = 0;
	sums->growth_blocks = sums->live_blocks = (int64_t)sums->allocations;
	sums->growth_bytes = sums->live_bytes = (int64_t)sums->allocated_bytes;
	sums->peak_bytes = sums->allocated_bytes;
}

struct ht_err *window_sums_alive(
	const struct cube *cube, struct window window, uint32_t alive, struct sums **ret)
{
	const struct window until = {window.from, alive + 1};
	HT_TRY(window_sums(cube, until, ret));
	for (size_t i = 0; i < cube->site_count; i++)
		turn_alive(&(*ret)[i]);
	for (size_t i = 0; i < cube->survivor_count; i++) {
		const struct cube_survivor *survivor = &cube->survivor[i];
		struct sums *sums = &(*ret)[survivor->site];
		if (!is_in(until, survivor->birth) || survivor->death <= alive)
			continue;
		if (survivor->death >= window.to) {
			sums->later_frees += survivor->blocks;
			sums->later_freed_bytes += survivor->bytes;
			continue;
		}
		sums->frees += survivor->blocks;
		sums->freed_bytes += survivor->bytes;
		sums->temporary += survivor->temporary;
		sums->lifetime_us += survivor->lifetime_us;
		sums->growth_blocks -= (int64_t)survivor->blocks;
		sums->growth_bytes -= (int64_t)survivor->bytes;
		sums->live_blocks -= (int64_t)survivor->blocks;
		sums->live_bytes -= (int64_t)survivor->bytes;
	}
	estimate(cube, *ret);
	return NULL;
}

uint64_t window_freed_later(const struct cube *cube, struct window window, uint32_t site)
{
	uint64_t bytes = 0;
	for (uint32_t i = cube->first_survivor[site]; i < cube->first_survivor[site + 1]; i++) {
		const struct cube_survivor *survivor = &cube->survivor[i];
		if (is_in(window, survivor->birth) && survivor->death >= window.to)
			bytes += survivor->bytes;
	}
	return bytes;
}

/* --- series ------------------------------------------------------------------------------------
 */

static void add_cells(
	const struct cube *cube, struct window window, uint32_t site, struct window_series *ret)
{
	for (uint32_t i = cube->first_cell[site]; i < cube->first_cell[site + 1]; i++) {
		const struct cube_cell *cell = &cube->cell[i];
		if (!is_in(window, cell->bucket))
			continue;
		const uint32_t at = cell->bucket - window.from;
		ret->allocated_bytes[at] += cell->counts.allocated_bytes;
		ret->allocated_blocks[at] += cell->counts.allocations;
		ret->freed_blocks[at] += cell->counts.frees;
		ret->freed_by_age[0] += cell->counts.frees;
		ret->live_bytes[at] +=
			(int64_t)(cell->counts.allocated_bytes - cell->counts.freed_bytes);
		/* Subtracts deaths in the same bucket; later deaths are subtracted below. */
		ret->surviving_blocks[at] += cell->counts.allocations - cell->counts.frees;
		ret->surviving_bytes[at] += cell->counts.allocated_bytes - cell->counts.freed_bytes;
	}
}

/* Subtracts blocks freed in the settle time from the survivors; only if the window ends where the
 * settle time begins. */
static void take_settled(const struct cube *cube, struct window window,
	const struct cube_survivor *survivor, struct window_series *ret)
{
	if (!is_in(window, survivor->birth) || window.to != cube->timeline.count)
		return;
	const uint32_t birth = survivor->birth - window.from;
	const uint64_t age =
		survivor->blocks ? survivor->lifetime_us / survivor->blocks * 1000 / cube->step_ns
				 : 0;
	ret->surviving_blocks[birth] -= survivor->blocks;
	ret->surviving_bytes[birth] -= survivor->bytes;
	ret->freed_by_age[age < TIMELINE_STEPS ? age : TIMELINE_STEPS - 1] += survivor->blocks;
}

/* Moves a death from the bucket where the cells counted it to the bucket of its birth. Sums may
 * wrap around on the way and are correct at the end. */
static void add_survivors(
	const struct cube *cube, struct window window, uint32_t site, struct window_series *ret)
{
	for (uint32_t i = cube->first_survivor[site]; i < cube->first_survivor[site + 1]; i++) {
		const struct cube_survivor *survivor = &cube->survivor[i];
		if (survivor->death == CUBE_SETTLED) {
			take_settled(cube, window, survivor, ret);
			continue;
		}
		if (!is_in(window, survivor->death))
			continue;
		const uint32_t death = survivor->death - window.from;
		ret->surviving_blocks[death] += survivor->blocks;
		ret->surviving_bytes[death] += survivor->bytes;
		ret->freed_by_age[0] -= survivor->blocks;
		if (survivor->birth < window.from) {
			ret->freed_blocks[death] -= survivor->blocks;
			ret->live_bytes[death] += (int64_t)survivor->bytes;
			continue;
		}
		const uint32_t birth = survivor->birth - window.from;
		ret->freed_by_age[death - birth] += survivor->blocks;
		ret->surviving_blocks[birth] -= survivor->blocks;
		ret->surviving_bytes[birth] -= survivor->bytes;
	}
}

static void add_older(
	const struct cube *cube, struct window window, unsigned class, struct window_series *ret)
{
	for (uint32_t i = window.from; i < window.to; i++)
		ret->older_freed_blocks[i - window.from] += cube->before[class][i];
}

void window_series(const struct cube *cube, struct window window, const uint32_t *site,
	size_t count, struct window_series *ret)
{
	bool has_class[CUBE_SIZE_CLASSES] = {false};
	*ret = (struct window_series){.count = window.to - window.from};
	for (size_t i = 0; i < count; i++) {
		const struct cube_site *of = &cube->site[site[i]];
		const unsigned class = cube_site_size_class(of);
		add_cells(cube, window, site[i], ret);
		add_survivors(cube, window, site[i], ret);
		if (ret->longest_ns < of->longest_ns)
			ret->longest_ns = of->longest_ns;
		if (class < CUBE_SIZE_CLASSES && !has_class[class])
			add_older(cube, window, class, ret);
		if (class < CUBE_SIZE_CLASSES)
			has_class[class] = true;
	}
	for (uint32_t i = 1; i < ret->count; i++)
		ret->live_bytes[i] += ret->live_bytes[i - 1];
}
