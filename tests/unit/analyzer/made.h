/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up history of blocks, the same for the same seed, for tests that compare the cube with a
 * naive recomputation from the list of all blocks.
 */
#pragma once

#include <stdlib.h>

#include "analyzer/cube/window.h"
#include "tests/support/ht_check.h"
#include "tests/support/memory_sample.h"
#include "tests/support/random.h"

#define MADE_BLOCKS  3000u
#define MADE_OLDER   200u
#define MADE_THREADS 3u
#define MADE_LIVES   UINT64_MAX /* as death_ns: the block is never freed */

static inline void note_rss(struct timeline *timeline, uint64_t time_ns, uint64_t rss_bytes)
{
	struct memory sample = memory_sample(MEMORY_RSS, rss_bytes);
	timeline_note(timeline, time_ns, &sample);
}

struct made_block {
	struct live_block block;
	uint64_t death_ns;
	bool is_temporary;
	uint32_t site; /* of the cube; after made_find_sites */
};

struct made {
	uint64_t random;
	uint32_t nodes;	 /* stacks are 0 to nodes - 1; every eighth is NODES_MAX higher, the id of a
			    plain node */
	uint64_t gap_ns; /* longest time from one event to the next; one in 200 may take a hundred
			    times as long */
	uint64_t sample_bytes;
	uint64_t now_ns, live_bytes, peak_bytes, peak_time_ns;
	struct made_block block[MADE_BLOCKS];
	size_t count;
	uint32_t live[MADE_BLOCKS]; /* indices of blocks */
	size_t live_count;
	struct {
		uint64_t time_ns, usable_bytes;
	} older[MADE_OLDER];
	size_t older_count;
	bool at_peak[MADE_BLOCKS]; /* live at the first moment of the peak */
};

static inline struct sample_share made_share(const struct made *made, size_t at)
{
	return sample_share_of(&made->block[at].block, made->sample_bytes);
}

static inline struct replay_call made_call(struct made *made)
{
	return (struct replay_call){.time_ns = made->now_ns,
		.thread = (uint32_t)random_below(&made->random, MADE_THREADS),
		.hook = (uint8_t)random_below(&made->random, 4)};
}

static inline void made_note_peak(struct made *made)
{
	if (made->live_bytes <= made->peak_bytes)
		return;
	made->peak_bytes = made->live_bytes;
	made->peak_time_ns = made->now_ns;
	for (size_t i = 0; i < made->count; i++)
		made->at_peak[i] = made->block[i].death_ns == MADE_LIVES;
}

static inline void made_allocate(struct made *made, struct cube *cube)
{
	const struct replay_call call = made_call(made);
	uint32_t stack = (uint32_t)random_below(&made->random, made->nodes);
	const size_t at = made->count++;
	made->block[at] = (struct made_block){.death_ns = MADE_LIVES,
		.block = {.addr = 0x1000 + 16 * at,
			.size = random_below(
				&made->random, 1ull << random_below(&made->random, 18)),
			.stack = stack % 8 == 7 ? NODES_MAX + stack : stack,
			.thread = call.thread,
			.hook = call.hook & (REPLAY_HOOKS - 1),
			.rounds_up = random_below(&made->random, 2) != 0,
			.birth_ns = made->now_ns}};
	made->live[made->live_count++] = (uint32_t)at;
	made->live_bytes += made_share(made, at).bytes;
	made_note_peak(made);
	if (cube)
		ck_no_err(cube_allocated(cube, &call, &made->block[at].block));
}

static inline void made_free(struct made *made, struct cube *cube)
{
	const struct replay_call call = made_call(made);
	const size_t which = random_below(&made->random, made->live_count);
	struct made_block *block = &made->block[made->live[which]];
	made->live_bytes -= made_share(made, made->live[which]).bytes;
	made->live[which] = made->live[--made->live_count];
	block->death_ns = made->now_ns;
	block->is_temporary = random_below(&made->random, 5) == 0;
	if (cube)
		ck_no_err(cube_freed(cube, &call, &block->block, block->is_temporary));
}

static inline void made_free_older(struct made *made, struct cube *cube)
{
	const struct replay_call call = made_call(made);
	const uint64_t bytes = random_below(&made->random, 5000);
	made->older[made->older_count].time_ns = made->now_ns;
	made->older[made->older_count++].usable_bytes = bytes;
	if (cube)
		ck_no_err(cube_before_freed(cube, &call, bytes, bytes + 8));
}

/* Makes the whole history, which grows and then shrinks. `cube`, unless NULL, counts the history;
 * the caller finishes the cube. */
static inline void made_play(struct made *made, uint64_t seed, struct cube *cube)
{
	made->random = seed;
	if (cube)
		cube->sample_bytes = made->sample_bytes;
	while (made->count < MADE_BLOCKS) {
		made->now_ns += (1 + random_below(&made->random, made->gap_ns)) *
				(random_below(&made->random, 200) ? 1 : 100);
		const uint64_t what = random_below(&made->random, 100);
		/* Resident memory is read ahead of the events. */
		if (cube && random_below(&made->random, 500) == 0)
			note_rss(&cube->timeline, made->now_ns + made->gap_ns * 50, 4096);
		if (what < (made->count < MADE_BLOCKS / 2 ? 60 : 44) || made->live_count == 0)
			made_allocate(made, cube);
		else if (what < 97)
			made_free(made, cube);
		else if (made->older_count < MADE_OLDER)
			made_free_older(made, cube);
	}
}

/* Finds each block's site in a finished cube; blocks whose stack has no site get the site of
 * CUBE_OTHER. */
static inline void made_find_sites(struct made *made, const struct cube *cube)
{
	for (size_t i = 0; i < made->count; i++) {
		const struct live_block *block = &made->block[i].block;
		made->block[i].site = cube->other - 1;
		for (uint32_t at = 0; at < cube->site_count; at++) {
			const struct cube_site *site = &cube->site[at];
			if (site->node == block->stack && cube_site_hook(site) == block->hook &&
				cube_site_thread(site) == block->thread &&
				cube_site_size_class(site) == cube_size_class(block->size))
				made->block[i].site = at;
		}
		ck_assert_uint_lt(made->block[i].site, cube->site_count);
	}
}

/* Returns the cube's bucket of a time; UINT32_MAX for MADE_LIVES. */
static inline uint32_t made_bucket(const struct cube *cube, uint64_t time_ns)
{
	return time_ns == MADE_LIVES ? UINT32_MAX : (uint32_t)(time_ns / cube->step_ns);
}

static inline bool made_is_live(
	const struct made *made, const struct cube *cube, size_t at, uint32_t end_bucket)
{
	const struct made_block *block = &made->block[at];
	return made_bucket(cube, block->block.birth_ns) < end_bucket &&
	       made_bucket(cube, block->death_ns) >= end_bucket;
}

static inline void made_check_sums(const struct sums *got, const struct sums *want)
{
	ck_assert_uint_eq(got->samples, want->samples);
	ck_assert_uint_eq(got->allocations, want->allocations);
	ck_assert_uint_eq(got->allocated_bytes, want->allocated_bytes);
	ck_assert_uint_eq(got->frees, want->frees);
	ck_assert_uint_eq(got->freed_bytes, want->freed_bytes);
	ck_assert_uint_eq(got->temporary, want->temporary);
	ck_assert_uint_eq(got->lifetime_us, want->lifetime_us);
	ck_assert_int_eq(got->growth_blocks, want->growth_blocks);
	ck_assert_int_eq(got->growth_bytes, want->growth_bytes);
	ck_assert_int_eq(got->live_blocks, want->live_blocks);
	ck_assert_int_eq(got->live_bytes, want->live_bytes);
	ck_assert_uint_eq(got->peak_bytes, want->peak_bytes);
}

/* Adds the death of a block, which lies within the window, to `sums`. */
static inline void made_add_death(const struct made *made, size_t at, struct sums *sums)
{
	const struct made_block *block = &made->block[at];
	const struct sample_share share = made_share(made, at);
	sums->frees += share.blocks;
	sums->freed_bytes += share.bytes;
	sums->temporary += block->is_temporary;
	sums->lifetime_us += (block->death_ns - block->block.birth_ns) / 1000 * share.blocks;
}

/* Adds the sums of block `at` in a window to `sums`, without the share of the peak. */
static inline void made_add(const struct made *made, const struct cube *cube, size_t at,
	struct window window, struct sums *sums)
{
	const uint32_t birth = made_bucket(cube, made->block[at].block.birth_ns);
	const struct sample_share share = made_share(made, at);
	const bool is_live = made_is_live(made, cube, at, window.to);
	const bool was_live = made_is_live(made, cube, at, window.from);
	if (window.from <= birth && birth < window.to) {
		sums->samples++;
		sums->allocations += share.blocks;
		sums->allocated_bytes += share.bytes;
		if (made_bucket(cube, made->block[at].death_ns) < window.to)
			made_add_death(made, at, sums);
	}
	sums->live_blocks += is_live * (int64_t)share.blocks;
	sums->live_bytes += is_live * (int64_t)share.bytes;
	sums->growth_blocks += (is_live - was_live) * (int64_t)share.blocks;
	sums->growth_bytes += (is_live - was_live) * (int64_t)share.bytes;
}
