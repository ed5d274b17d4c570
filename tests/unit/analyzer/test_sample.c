/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the blocks of a sample count for: right on average, the same at the free as at the
 * allocation, and the same in every sum.
 */
#include "analyzer/model/sample.h"

#include <math.h>

#include "tests/unit/analyzer/scene.h"

#define RATE  4096u
#define CALLS 400000u

/* A random number generator. */
static uint64_t state;

static uint64_t next(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state ^ state >> 32;
}

HT_TEST(without_a_rate_a_block_is_one_block)
{
	const struct live_block block = {.size = 100, .rounds_up = 1};
	ck_assert_uint_eq(sample_blocks(100, 0, 0), 1);
	ck_assert_uint_eq(sample_share_of(&block, 0).blocks, 1);
	ck_assert_uint_eq(sample_share_of(&block, 0).bytes, 100);
}

HT_TEST(a_block_counts_for_those_that_were_not_taken)
{
	static const struct {
		uint64_t size, rate, blocks, bytes;
	} cases[] = {
		{0, 524288, 524288, 0},		   /* 524288.5 */
		{63, 524288, 8192, 516128},	   /* 8192.5 */
		{4095, 4096, 1, 6478},		   /* 1.58 */
		{1 << 20, 4096, 1, 1 << 20},	   /* certainly recorded */
		{UINT64_MAX, 4096, 1, UINT64_MAX}, /* a trace may have any size */
		{100, UINT64_MAX, 1ull << 48, 100ull << 48},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		const struct live_block block = {.size = cases[i].size};
		struct sample_share share = sample_share_of(&block, cases[i].rate);
		ck_assert_uint_eq(share.blocks, cases[i].blocks);
		ck_assert_uint_eq(share.bytes, cases[i].bytes);
	}
}

HT_TEST(rounding_is_right_on_average)
{
	double sum = 0, want = -1 / expm1(-4096.0 / RATE);
	for (unsigned i = 0; i < CALLS; i++) {
		uint64_t blocks = sample_blocks(4095, RATE, next());
		ck_assert(blocks == 1 || blocks == 2);
		sum += (double)blocks;
	}
	ck_assert_msg(fabs(sum / CALLS - want) < 0.003, "%f", sum / CALLS);
}

/* Samples allocations as the agent does: the estimate must be within five standard deviations. */
HT_TEST(a_sample_tells_how_much_there_was)
{
	struct scene scene;
	double bytes = 0, calls = 0, bytes_variance = 0, calls_variance = 0;
	uint64_t samples = 0;
	state = 1;
	scene_init_sample(&scene, RATE);
	for (unsigned i = 0; i < CALLS; i++) {
		uint64_t size = next() % 64 == 0 ? next() % 10000 : next() % 100;
		double p = -expm1(-((double)size + 1) / RATE);
		calls++;
		bytes += (double)size;
		calls_variance += (1 - p) / p;
		bytes_variance += (double)size * (double)size * (1 - p) / p;
		if (ldexp((double)(next() >> 11), -53) < p) {
			scene_malloc(&scene, 0, 0x10000 + 16 * samples, size, 0);
			samples++;
		}
		if (samples % 4096 == 0)
			scene_flush(&scene, 0);
	}
	struct analysis *analysis = scene_analyze(&scene);
	const struct cube_counts *total = &analysis->cube.total;
	ck_assert_uint_eq(total->samples, samples);
	ck_assert_msg(fabs((double)total->allocations - calls) < 5 * sqrt(calls_variance), "%lu",
		total->allocations);
	ck_assert_msg(fabs((double)total->allocated_bytes - bytes) < 5 * sqrt(bytes_variance),
		"%lu", total->allocated_bytes);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_TEST(what_came_goes_and_parts_are_the_whole)
{
	struct scene scene;
	scene_init_sample(&scene, RATE);
	for (unsigned i = 0; i < 1000; i++) {
		scene_malloc(&scene, i % 2, 0x10000 + 16 * i, 3000 + i, 0);
		if (i % 3)
			scene_realloc_begin(&scene, i % 2, 0x10000 + 16 * i, 0);
		if (i % 3 == 1)
			scene_realloc_done(&scene, i % 2, ABI_EVENT_REALLOC_FREED);
		if (i % 3 == 2)
			scene_realloc_done(&scene, i % 2, ABI_EVENT_REALLOC_FAIL);
	}
	for (unsigned i = 0; i < 1000; i++)
		if (i % 3 != 1)
			scene_free(&scene, i % 2, 0x10000 + 16 * i, 0);
	scene_free(&scene, 0, 0x777770, 99);
	struct analysis *analysis = scene_analyze(&scene);
	const struct cube *cube = &analysis->cube;
	ck_assert_uint_gt(cube->total.allocations, 1500);
	ck_assert_uint_eq(cube_live_blocks(cube), 0);
	ck_assert_uint_eq(cube_live_bytes(cube), 0);
	/* A sample has no figures for temporary and for older blocks. */
	ck_assert_uint_eq(cube->total.temporary, 0);
	ck_assert_uint_eq(cube->before_frees, 0);
	uint64_t allocations = 0, bytes = 0, steps = 0;
	for (size_t i = 0; i < cube->cell_count; i++) {
		allocations += cube->cell[i].counts.allocations;
		bytes += cube->cell[i].counts.allocated_bytes;
	}
	for (size_t i = 0; i < cube->timeline.count; i++)
		steps += cube->timeline.step[i].allocations;
	ck_assert_uint_eq(allocations, cube->total.allocations);
	ck_assert_uint_eq(bytes, cube->total.allocated_bytes);
	ck_assert_uint_eq(steps, cube->total.allocations);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_SUITE("analyzer/sample")
