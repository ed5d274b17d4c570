/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts sums of culled blocks in the tables that also count facts.
 */
#include "analyzer/cube/cube.h"

struct ht_err *cube_cull(struct cube *cube)
{
	cube->is_culled = true;
	while (cube->timeline.step_ns < TRACE_CULLED_NS)
		timeline_join(&cube->timeline);
	struct ht_err *err = cube_follow_timeline(cube);
	cube->bucket_end_ns = cube->timeline.newest_end_ns;
	return err;
}

/* The bucket of a time; times after the timeline's end count in its last bucket. */
static uint32_t bucket_of(const struct cube *cube, uint64_t time_ns)
{
	const uint32_t bucket = cube_bucket_at(cube, time_ns);
	return bucket < TIMELINE_STEPS ? bucket : TIMELINE_STEPS - 1;
}

/* before_bytes of a step without facts: that of the last step before it with facts. */
static uint64_t before_bytes(const struct cube *cube, uint32_t bucket)
{
	while (bucket > 0 && !cube->timeline.step[bucket].touched)
		bucket--;
	return cube->timeline.step[bucket].before_bytes;
}

static void add_step(struct cube *cube, uint32_t bucket, const struct cube_counts *counts)
{
	struct timeline_step *step = &cube->timeline.step[bucket];
	if (!step->touched)
		step->before_bytes = before_bytes(cube, bucket);
	step->touched = true;
	step->allocations += counts->allocations;
	step->allocated_bytes += counts->allocated_bytes;
	step->frees += counts->frees;
	step->freed_bytes += counts->freed_bytes;
	step->temporary += counts->temporary;
	if (cube->timeline.count <= bucket)
		cube->timeline.count = bucket + 1;
}

struct ht_err *cube_add_counts(
	struct cube *cube, uint32_t site, uint32_t bucket, const struct cube_counts *counts)
{
	cube_counts_add(&cube->total, counts);
	/* The counts are in a bucket of their own, so the current bucket must not count them. */
	cube_counts_add(&cube->bucket_start, counts);
	add_step(cube, bucket, counts);
	return cube_add_cell(cube, site, bucket, counts);
}

/* No capture has so many blocks: a record with more is forged, and its sums would overflow. */
#define BLOCKS_MAX ((uint64_t)1 << 40)
#define BYTES_MAX  ((uint64_t)1 << 56)

/* At most as many blocks can be temporary as were freed; a forged record may state more. */
static uint64_t temporary_of(const struct cube *cube, const struct cube_culled *culled)
{
	const uint64_t most = cube->total.frees + culled->blocks - cube->total.temporary;
	return culled->temporary < most ? culled->temporary : most;
}

struct ht_err *cube_culled_blocks(struct cube *cube, const struct cube_culled *from)
{
	struct cube_culled sums = *from;
	const struct cube_culled *culled = &sums;
	if (from->blocks > BLOCKS_MAX || from->bytes > BYTES_MAX)
		return NULL;
	sums.temporary = temporary_of(cube, from);
	const struct cube_counts births = {.samples = culled->blocks,
		.allocations = culled->blocks,
		.allocated_bytes = culled->bytes};
	const struct cube_counts deaths = {.frees = culled->blocks,
		.freed_bytes = culled->bytes,
		.temporary = culled->temporary,
		.lifetime_us = culled->lifetime_us};
	uint32_t at = 0;
	HT_TRY(cube_pass(cube, culled->death_ns));
	HT_TRY(cube_find_site(
		cube, culled->stack, culled->thread, culled->hook, culled->size_class, &at));
	const uint32_t birth = bucket_of(cube, culled->birth_ns);
	const uint32_t death = bucket_of(cube, culled->death_ns);
	if (cube->site[at].longest_ns < culled->longest_ns)
		cube->site[at].longest_ns = culled->longest_ns;
	HT_TRY(cube_add_counts(cube, at, birth, &births));
	HT_TRY(cube_add_counts(cube, at, death, &deaths));
	if (birth >= death)
		return NULL;
	const struct cube_survivor survivors = {.site = at,
		.birth = (uint16_t)birth,
		.death = (uint16_t)death,
		.blocks = culled->blocks,
		.bytes = culled->bytes,
		.temporary = culled->temporary,
		.lifetime_us = culled->lifetime_us};
	return cube_add_survivors(cube, &survivors);
}

struct ht_err *cube_culled_peak(
	struct cube *cube, const struct cube_culled *site, int64_t change_bytes)
{
	uint32_t at = 0;
	HT_TRY(cube_find_site(cube, site->stack, site->thread, site->hook, site->size_class, &at));
	cube->site[at].peak_bytes += (uint64_t)change_bytes;
	return NULL;
}

void cube_culled_lives(struct cube *cube, uint64_t class, uint64_t blocks, uint64_t bytes)
{
	if (class >= CUBE_SIZE_CLASSES)
		return;
	cube->lifetime_blocks[class] += blocks;
	cube->lifetime_bytes[class] += bytes;
}

struct ht_err *cube_culled_head(struct cube *cube, uint64_t time_ns, const struct rec_culled *head)
{
	HT_TRY(cube_pass(cube, time_ns));
	struct timeline_step *step = &cube->timeline.step[bucket_of(cube, time_ns)];
	if (!cube->is_part && step->live_max_bytes < head->live_max_bytes)
		step->live_max_bytes = head->live_max_bytes;
	if (head->has_highest) {
		cube->highest_bytes = culled_unfold(head->highest_bytes);
		cube->highest_time_ns = head->highest_ns;
	}
	if (!head->has_peak || cube->is_part)
		return NULL;
	cube->has_peak = true;
	cube->peak_bytes = head->peak_bytes;
	cube->peak_blocks = head->peak_blocks;
	cube->peak_time_ns = head->peak_ns;
	return NULL;
}

void cube_finish_culled(struct cube *cube)
{
	uint64_t live_bytes = 0;
	for (uint32_t i = 0; i < cube->timeline.count; i++) {
		struct timeline_step *step = &cube->timeline.step[i];
		if (step->live_max_bytes < live_bytes)
			step->live_max_bytes = live_bytes;
		live_bytes += step->allocated_bytes - step->freed_bytes;
		if (step->live_max_bytes < live_bytes)
			step->live_max_bytes = live_bytes;
		step->touched = true;
		step->live_bytes = live_bytes;
	}
}
