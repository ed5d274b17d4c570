/* SPDX-License-Identifier: Apache-2.0
 *
 * The cube's tables: how they grow, and how they shrink in place when buckets are joined or stacks
 * are folded.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/cube/cube.h"
#include "format/array.h"

void cube_counts_add(struct cube_counts *sum, const struct cube_counts *more)
{
	sum->samples += more->samples;
	sum->allocations += more->allocations;
	sum->allocated_bytes += more->allocated_bytes;
	sum->frees += more->frees;
	sum->freed_bytes += more->freed_bytes;
	sum->temporary += more->temporary;
	sum->lifetime_us += more->lifetime_us;
}

struct ht_err *cube_add_cell(
	struct cube *cube, uint32_t site, uint32_t bucket, const struct cube_counts *counts)
{
	const bool any_order = cube->is_unordered || cube->is_culled;
	const uint64_t key = (uint64_t)site << 16 | bucket;
	uint32_t at = cube->site[site].cell;
	if (any_order ? map_get(&cube->by_bucket, key, &at)
		      : at != CUBE_NONE && cube->cell[at].bucket == bucket) {
		cube_counts_add(&cube->cell[at].counts, counts);
		return NULL;
	}
	at = (uint32_t)cube->cell_count;
	HT_TRY(ARRAY_RESERVE(cube->cell, cube->cell_capacity, (size_t)at + 1, "cells"));
	cube->cell[cube->cell_count++] =
		(struct cube_cell){.site = site, .bucket = bucket, .counts = *counts};
	cube->site[site].cell = at;
	return any_order ? map_put(&cube->by_bucket, key, at) : NULL;
}

struct ht_err *cube_close_cell(struct cube *cube, uint32_t at)
{
	struct cube_site *site = &cube->site[at];
	if (!site->open.allocations && !site->open.frees)
		return NULL;
	if (!cube->sample_bytes)
		site->open.samples = site->open.allocations;
	HT_TRY(cube_add_cell(cube, at, site->bucket, &site->open));
	site->open = (struct cube_counts){0};
	return NULL;
}

/* --- survivors ---------------------------------------------------------------------------------
 */

struct ht_err *cube_add_survivors(struct cube *cube, const struct cube_survivor *more)
{
	const uint64_t key = (uint64_t)more->site << 16 | more->birth;
	uint32_t at;
	if (cube->dying_bucket != more->death)
		map_clear(&cube->dying);
	cube->dying_bucket = more->death;
	if (map_get(&cube->dying, key, &at)) {
		struct cube_survivor *sum = &cube->survivor[at];
		sum->blocks += more->blocks;
		sum->bytes += more->bytes;
		sum->temporary += more->temporary;
		sum->lifetime_us += more->lifetime_us;
		return NULL;
	}
	HT_TRY(ARRAY_RESERVE(
		cube->survivor, cube->survivor_capacity, cube->survivor_count + 1, "survivors"));
	HT_TRY(map_put(&cube->dying, key, (uint32_t)cube->survivor_count));
	cube->survivor[cube->survivor_count++] = *more;
	return NULL;
}

struct ht_err *cube_add_survivor(struct cube *cube, uint32_t site, uint32_t birth, uint32_t death,
	struct sample_share share, bool temporary, uint64_t lifetime_us)
{
	const struct cube_survivor one = {.site = site,
		.birth = (uint16_t)birth,
		.death = (uint16_t)death,
		.blocks = share.blocks,
		.bytes = share.bytes,
		.temporary = temporary,
		.lifetime_us = lifetime_us};
	return cube_add_survivors(cube, &one);
}

/* Rebuilds the survivors, each changed by `change`; drops those whose birth and death are then
 * equal. Keeps the order of deaths. */
static struct ht_err *rewrite_survivors(struct cube *cube,
	void (*change)(struct cube_survivor *, const void *), const void *context)
{
	const size_t count = cube->survivor_count;
	map_clear(&cube->dying);
	cube->dying_bucket = 0;
	cube->survivor_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct cube_survivor one = cube->survivor[i];
		change(&one, context);
		if (one.birth != one.death)
			HT_TRY(cube_add_survivors(cube, &one));
	}
	return NULL;
}

/* --- joined buckets ----------------------------------------------------------------------------
 */

/* Joins cells of a site that are now in the same bucket. */
static struct ht_err *join_cells(struct cube *cube, unsigned shift)
{
	const size_t count = cube->cell_count;
	map_clear(&cube->by_bucket);
	for (size_t i = 0; i < cube->site_count; i++) {
		cube->site[i].cell = CUBE_NONE;
		cube->site[i].bucket >>= shift;
	}
	cube->cell_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct cube_cell cell = cube->cell[i];
		HT_TRY(cube_add_cell(cube, cell.site, cell.bucket >> shift, &cell.counts));
	}
	return NULL;
}

#define BUCKET_BITS 9u
_Static_assert(1u << BUCKET_BITS == TIMELINE_STEPS, "a bucket's number has so many bits");

static void join_before(struct cube *cube, unsigned shift)
{
	for (unsigned class = 0; class < CUBE_SIZE_CLASSES; class ++) {
		uint32_t *count = cube->before[class];
		for (unsigned i = 1; i < TIMELINE_STEPS; i++) {
			uint32_t moved = count[i];
			count[i] = 0;
			count[i >> shift] += moved;
		}
	}
}

static void join_survivor(struct cube_survivor *survivor, const void *context)
{
	const unsigned *shift = context;
	survivor->birth = (uint16_t)(survivor->birth >> *shift);
	if (survivor->death != CUBE_SETTLED)
		survivor->death = (uint16_t)(survivor->death >> *shift);
}

struct ht_err *cube_follow_timeline(struct cube *cube)
{
	if (cube->timeline.step_ns == cube->step_ns)
		return NULL;
	unsigned shift = (unsigned)__builtin_ctzll(cube->timeline.step_ns / cube->step_ns);
	/* After a gap of centuries the shift could exceed the bits of an integer. BUCKET_BITS
	 * suffice to make all buckets the first. */
	if (shift > BUCKET_BITS)
		shift = BUCKET_BITS;
	cube->step_ns = cube->timeline.step_ns;
	cube->step_shift = (unsigned)__builtin_ctzll(cube->step_ns / TIMELINE_FIRST_STEP_NS);
	join_before(cube, shift);
	HT_TRY(join_cells(cube, shift));
	return rewrite_survivors(cube, join_survivor, &shift);
}

/* --- folded stacks -----------------------------------------------------------------------------
 */

/* The sites of one stack. */
struct weight {
	uint64_t bytes; /* bytes that these sites allocated */
	uint32_t node;
	uint32_t cells; /* number of their cells and survivors */
};

/* Sorts by allocated bytes per cell, lowest first. */
static int compare_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	const double bx = (double)x->bytes / (x->cells + 1.0);
	const double by = (double)y->bytes / (y->cells + 1.0);
	if (bx < by || bx > by)
		return bx < by ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static uint32_t *head_of(struct cube *cube, uint32_t node)
{
	return node < NODES_MAX ? &cube->of_node.site[node]
				: &cube->of_plain.site[node % NODES_MAX];
}

struct fold {
	struct weight *weight; /* by stack */
	uint32_t *stack_of;    /* by site: index of its weight, CUBE_NONE for CUBE_OTHER */
	bool *is_folded;       /* by site */
	size_t count;
	uint32_t other;
};

static void weigh(struct cube *cube, struct fold *fold)
{
	for (uint32_t i = 0; i < cube->site_count; i++)
		fold->stack_of[i] = CUBE_NONE;
	for (uint32_t i = 0; i < cube->site_count; i++) {
		if (cube->site[i].node >= CUBE_OTHER || fold->stack_of[i] != CUBE_NONE)
			continue;
		const uint32_t stack = (uint32_t)fold->count++;
		fold->weight[stack].node = cube->site[i].node;
		for (uint32_t at = *head_of(cube, cube->site[i].node); at;
			at = cube->site[at - 1].next)
			fold->stack_of[at - 1] = stack;
	}
	for (size_t i = 0; i < cube->cell_count; i++) {
		const struct cube_cell *cell = &cube->cell[i];
		if (fold->stack_of[cell->site] == CUBE_NONE)
			continue;
		struct weight *weight = &fold->weight[fold->stack_of[cell->site]];
		weight->bytes += cell->counts.allocated_bytes;
		weight->cells++;
	}
	for (size_t i = 0; i < cube->survivor_count; i++)
		if (fold->stack_of[cube->survivor[i].site] != CUBE_NONE)
			fold->weight[fold->stack_of[cube->survivor[i].site]].cells++;
}

static struct ht_err *add_other(struct cube *cube)
{
	if (cube->other)
		return NULL;
	HT_TRY(ARRAY_RESERVE(cube->site, cube->site_capacity, cube->site_count + 1, "stacks"));
	cube->site[cube->site_count] = (struct cube_site){.node = CUBE_OTHER,
		.cell = CUBE_NONE,
		.bucket = cube->bucket,
		.peak_epoch = cube->peak_epoch};
	cube->other = (uint32_t)++cube->site_count;
	return NULL;
}

static void fold_site(struct cube *cube, struct cube_site *other, struct cube_site *site)
{
	other->live_bytes += site->live_bytes;
	other->variance.bytes += site->variance.bytes;
	other->variance.blocks += site->variance.blocks;
	other->peak_bytes +=
		site->peak_epoch == cube->peak_epoch ? site->peak_bytes : site->live_bytes;
	if (other->longest_ns < site->longest_ns)
		other->longest_ns = site->longest_ns;
	*site = (struct cube_site){.node = CUBE_NONE, .cell = CUBE_NONE, .bucket = site->bucket};
}

/* Chooses the stacks with the fewest bytes per cell, until they have half of all cells and
 * survivors. Merges their sites into CUBE_OTHER, without their cells. */
static void choose(struct cube *cube, struct fold *fold)
{
	size_t wanted = (cube->cell_count + cube->survivor_count) / 2;
	struct cube_site *other = &cube->site[fold->other];
	if (other->peak_epoch != cube->peak_epoch) {
		other->peak_epoch = cube->peak_epoch;
		other->peak_bytes = other->live_bytes;
	}
	for (size_t i = 0, got = 0; i < fold->count && got < wanted; i++) {
		uint32_t *head = head_of(cube, fold->weight[i].node);
		uint32_t next;
		for (uint32_t at = *head; at; at = next) {
			next = cube->site[at - 1].next;
			fold->is_folded[at - 1] = true;
			fold_site(cube, other, &cube->site[at - 1]);
		}
		*head = fold->other + 1;
		got += fold->weight[i].cells;
		cube->folded_stacks++;
	}
}

/* Removes the cells of folded sites and appends those of CUBE_OTHER. */
static struct ht_err *fold_cells(struct cube *cube, const struct fold *fold)
{
	HT_FREED struct cube_counts *sum = calloc(TIMELINE_STEPS, sizeof(*sum));
	if (!sum)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %u buckets", TIMELINE_STEPS);
	const size_t count = cube->cell_count;
	map_clear(&cube->by_bucket);
	for (size_t i = 0; i < cube->site_count; i++)
		cube->site[i].cell = CUBE_NONE;
	cube->cell_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct cube_cell cell = cube->cell[i];
		if (fold->is_folded[cell.site] || cell.site == fold->other)
			cube_counts_add(&sum[cell.bucket], &cell.counts);
		else
			HT_TRY(cube_add_cell(cube, cell.site, cell.bucket, &cell.counts));
	}
	for (uint32_t i = 0; i < TIMELINE_STEPS; i++)
		if (sum[i].allocations || sum[i].frees)
			HT_TRY(cube_add_cell(cube, fold->other, i, &sum[i]));
	return NULL;
}

static void fold_survivor(struct cube_survivor *survivor, const void *context)
{
	const struct fold *fold = context;
	if (fold->is_folded[survivor->site])
		survivor->site = fold->other;
}

static struct ht_err *fold_lightest(struct cube *cube)
{
	HT_TRY(add_other(cube));
	for (uint32_t i = 0; i < cube->site_count; i++)
		HT_TRY(cube_close_cell(cube, i));
	memset(cube->recent, 0, sizeof(cube->recent));
	HT_FREED struct weight *weight = calloc(cube->site_count, sizeof(*weight));
	HT_FREED uint32_t *stack_of = calloc(cube->site_count, sizeof(*stack_of));
	HT_FREED bool *is_folded = calloc(cube->site_count, sizeof(*is_folded));
	if (!weight || !stack_of || !is_folded)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", cube->site_count);
	struct fold fold = {weight, stack_of, is_folded, .other = cube->other - 1};
	weigh(cube, &fold);
	qsort(weight, fold.count, sizeof(*weight), compare_weight);
	choose(cube, &fold);
	HT_TRY(fold_cells(cube, &fold));
	return rewrite_survivors(cube, fold_survivor, &fold);
}

static bool is_full(const struct cube *cube)
{
	return cube->cell_count > cube->cells_max || cube->survivor_count > cube->cells_max;
}

struct ht_err *cube_shrink(struct cube *cube)
{
	if (ht_likely(!is_full(cube)))
		return NULL;
	while (is_full(cube) && cube->timeline.count > 2 * CUBE_BUCKETS_MIN) {
		timeline_join(&cube->timeline);
		HT_TRY(cube_follow_timeline(cube));
	}
	return is_full(cube) ? fold_lightest(cube) : NULL;
}

/* --- by site -----------------------------------------------------------------------------------
 */

/* Sorts `count` elements by site; stable. */
static struct ht_err *sort_by_site(
	void *data, size_t count, size_t bytes, size_t sites, uint32_t **ret_first)
{
	uint32_t *first = calloc(sites + 2, sizeof(*first));
	char *sorted = malloc(count * bytes + 1);
	if (!first || !sorted) {
		free(first);
		free(sorted);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu cells", count);
	}
	const char *from = data;
	for (size_t i = 0; i < count; i++)
		first[*(const uint32_t *)(const void *)(from + i * bytes) + 2]++;
	for (size_t i = 2; i < sites + 2; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < count; i++) {
		uint32_t site = *(const uint32_t *)(const void *)(from + i * bytes);
		__builtin_memcpy(
			sorted + (size_t)first[site + 1]++ * bytes, from + i * bytes, bytes);
	}
	if (count)
		__builtin_memcpy(data, sorted, count * bytes);
	free(sorted);
	*ret_first = first;
	return NULL;
}

static int compare_cells(const void *a, const void *b)
{
	const struct cube_cell *x = a, *y = b;
	if (x->bucket != y->bucket)
		return x->bucket < y->bucket ? -1 : 1;
	return (x->site > y->site) - (x->site < y->site);
}

struct ht_err *cube_sort(struct cube *cube)
{
	if ((cube->is_unordered || cube->is_culled) && cube->cell_count)
		qsort(cube->cell, cube->cell_count, sizeof(*cube->cell), compare_cells);
	HT_TRY(sort_by_site(cube->cell, cube->cell_count, sizeof(*cube->cell), cube->site_count,
		&cube->first_cell));
	return sort_by_site(cube->survivor, cube->survivor_count, sizeof(*cube->survivor),
		cube->site_count, &cube->first_survivor);
}

/* --- the peak, from steps and cells ----------------------------------------------------------- */

void cube_estimate_peak(struct cube *cube)
{
	uint64_t live_bytes = 0, live_blocks = 0;
	uint32_t peak = 0;
	cube->is_peak_estimate = true;
	for (uint32_t i = 0; i < cube->timeline.count; i++) {
		struct timeline_step *step = &cube->timeline.step[i];
		live_bytes += step->allocated_bytes - step->freed_bytes;
		live_blocks += step->allocations - step->frees;
		step->touched = true;
		step->live_bytes = step->live_max_bytes = live_bytes;
		if (live_bytes <= cube->peak_bytes)
			continue;
		peak = i;
		cube->peak_bytes = live_bytes;
		cube->peak_blocks = live_blocks;
		cube->peak_time_ns = (i + 1) * cube->step_ns;
	}
	for (size_t i = 0; i < cube->site_count; i++)
		cube->site[i].peak_bytes = 0;
	for (size_t i = 0; i < cube->cell_count && cube->peak_bytes; i++)
		if (cube->cell[i].bucket <= peak)
			cube->site[cube->cell[i].site].peak_bytes +=
				cube->cell[i].counts.allocated_bytes -
				cube->cell[i].counts.freed_bytes;
}
