/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks chosen by size and age: what is counted of them equals a naive recomputation from the list
 * of the chosen ones, in every window, and the heap and RSS stay those of all blocks.
 */

#include "analyzer/cube/window.h"
#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/scene.h"

static struct made made;
static struct cube cube;
static bool is_chosen[MADE_BLOCKS];

static int compare_deaths(const void *a, const void *b)
{
	const struct made_block *x = &made.block[*(const uint32_t *)a];
	const struct made_block *y = &made.block[*(const uint32_t *)b];
	if (x->death_ns != y->death_ns)
		return x->death_ns < y->death_ns ? -1 : 1;
	return (x > y) - (x < y);
}

/* Makes a history, and has the cube count a random choice of its blocks: blocks that are freed in
 * the order of their frees, then those that are not. */
static void count_chosen(uint64_t seed, uint64_t gap_ns, uint32_t nodes, size_t cells_max)
{
	uint32_t order[MADE_BLOCKS];
	made = (struct made){.nodes = nodes, .gap_ns = gap_ns, .sample_bytes = seed % 2 ? 0 : 4096};
	made_play(&made, seed, NULL);
	cube = (struct cube){.is_unordered = true, .sample_bytes = made.sample_bytes};
	cube_init(&cube);
	cube.cells_max = cells_max;
	for (uint32_t i = 0; i < made.count; i++)
		order[i] = i;
	qsort(order, made.count, sizeof(*order), compare_deaths);
	for (uint32_t i = 0; i < made.count; i++) {
		struct made_block *block = &made.block[order[i]];
		const struct replay_call death = {.time_ns = block->death_ns};
		const bool lives = block->death_ns == MADE_LIVES;
		is_chosen[order[i]] = random_below(&made.random, 3) != 0;
		if (lives)
			ck_no_err(cube_pass(&cube, made.now_ns));
		if (i % 300 == 0 && !lives)
			note_rss(&cube.timeline, block->death_ns + gap_ns * 100, 4096);
		if (is_chosen[order[i]])
			ck_no_err(cube_lived(
				&cube, &block->block, lives ? NULL : &death, block->is_temporary));
		else if (!lives)
			ck_no_err(cube_pass(&cube, block->death_ns));
	}
	ck_no_err(cube_finish(&cube));
	/* Keep the chosen blocks alone: the tests compare with these. */
	size_t kept = 0;
	for (size_t i = 0; i < made.count; i++)
		if (is_chosen[i])
			made.block[kept++] = made.block[i];
	made.count = kept;
	made_find_sites(&made, &cube);
}

static uint64_t live_at(uint32_t end_bucket)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < made.count; i++)
		if (made_is_live(&made, &cube, i, end_bucket))
			bytes += made_share(&made, i).bytes;
	return bytes;
}

static void check_timeline(void)
{
	uint64_t peak_bytes = 0;
	for (uint32_t i = 0; i < cube.timeline.count; i++) {
		const uint64_t bytes = live_at(i + 1);
		ck_assert_uint_eq(cube.timeline.step[i].live_bytes, bytes);
		ck_assert_uint_eq(cube.timeline.step[i].live_max_bytes, bytes);
		if (bytes <= peak_bytes)
			continue;
		peak_bytes = bytes;
		ck_assert_uint_le((i + 1) * cube.step_ns, cube.peak_time_ns);
	}
	ck_assert_uint_eq(cube.peak_bytes, peak_bytes);
	ck_assert(cube.is_peak_estimate);
}

static void check_window(struct window window)
{
	struct sums *got, *want = calloc(cube.site_count, sizeof(*want));
	const struct window_peak peak = window_peak(&cube, window);
	const uint32_t peak_bucket = window_is_whole(&cube, window)
					     ? (uint32_t)(cube.peak_time_ns / cube.step_ns) - 1
					     : peak.bucket;
	ck_assert_uint_eq(peak.bytes, live_at(peak_bucket + 1));
	for (size_t i = 0; i < made.count; i++) {
		struct sums *sums = &want[made.block[i].site];
		made_add(&made, &cube, i, window, sums);
		if (made_is_live(&made, &cube, i, peak_bucket + 1))
			sums->peak_bytes += made_share(&made, i).bytes;
	}
	ck_no_err(window_sums(&cube, window, &got));
	for (size_t i = 0; i < cube.site_count; i++)
		made_check_sums(&got[i], &want[i]);
	free(got);
	free(want);
}

static void check_all(void)
{
	const uint32_t count = (uint32_t)cube.timeline.count;
	check_timeline();
	check_window(window_whole(&cube));
	for (unsigned i = 0; i < 10; i++) {
		struct window window = {.from = (uint32_t)random_below(&made.random, count)};
		window.to =
			window.from + 1 + (uint32_t)random_below(&made.random, count - window.from);
		check_window(window);
	}
	for (size_t i = 1; i < cube.cell_count; i++)
		ck_assert(cube.cell[i].site > cube.cell[i - 1].site ||
			  (cube.cell[i].site == cube.cell[i - 1].site &&
				  cube.cell[i].bucket > cube.cell[i - 1].bucket));
	uint64_t frees = 0;
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		frees += cube.function[i].frees;
	ck_assert_uint_eq(frees, cube.total.frees);
	cube_deinit(&cube);
}

HT_TEST(blocks_in_the_order_of_their_deaths)
{
	static const uint64_t gap_ns[] = {2000, 40000, 3000000};
	for (uint64_t seed = 1; seed <= 6; seed++) {
		count_chosen(seed, gap_ns[seed % HT_ARRAY_SIZE(gap_ns)], 20, CUBE_CELLS_MAX);
		ck_assert_uint_gt(cube.survivor_count, 100);
		check_all();
	}
}

HT_TEST(folded_stacks_are_in_the_sums)
{
	count_chosen(1, 900000, 1000, 1000);
	ck_assert_uint_gt(cube.folded_stacks, 100);
	check_all();
}

/* --- through a trace ---------------------------------------------------------------------------
 */

static struct scene scene;
static struct analysis *analysis;
static struct query query;

/* Blocks of 1, 2, 4 and 8 bytes, so that a sum names its blocks. 1 lives 1 ms and 2 lives 2 ms; 4
 * lives from 3 ms to the end at 10 ms; 8 lives from 8 ms on, and a realloc of it begins but does
 * not end. */
static void make_trace(void)
{
	scene_init(&scene);
	const uint64_t start = scene.now;
	scene_malloc(&scene, 0, 0x1000, 1, 0);
	scene_malloc(&scene, 0, 0x2000, 2, 0);
	scene.now = start + 1000000 + SCENE_STEP_NS * 10;
	scene_free(&scene, 0, 0x1000, 1);
	scene.now = start + 2000000 + SCENE_STEP_NS * 10;
	scene_free(&scene, 0, 0x2000, 2);
	scene_free(&scene, 0, 0x9000, 64);
	scene.now = start + 3000000;
	scene_malloc(&scene, 0, 0x3000, 4, 0);
	scene.now = start + 8000000;
	scene_malloc(&scene, 1, 0x4000, 8, 0);
	scene_realloc_begin(&scene, 1, 0x4000, 8);
	scene.now = start + 10000000;
	query_init(&query);
}

static void check_bytes(uint64_t bytes, uint64_t freed_bytes)
{
	analysis = scene_analyze_blocks(&scene, &query);
	struct view *view = scene_view(analysis, &query);
	ck_assert_uint_eq(view->total.allocated_bytes, bytes);
	ck_assert_uint_eq(view->total.freed_bytes, freed_bytes);
	ck_assert_int_eq(view->total.live_bytes, (int64_t)(bytes - freed_bytes));
	ck_assert_uint_eq(view->to_ns, analysis->model.duration_ns);
	ck_assert_uint_eq(analysis->cube.timeline.count, 9);
	ck_assert_uint_eq(analysis_whole(analysis)->total.allocated_bytes, 15);
	ck_assert_uint_eq(analysis_whole(analysis)->before_frees, 1);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_TEST(sizes_are_bounds)
{
	make_trace();
	check_bytes(15, 3);
	make_trace();
	query.min_size = 2;
	check_bytes(14, 2);
	make_trace();
	query.max_size = 4;
	check_bytes(7, 3);
	make_trace();
	query.min_size = 2;
	query.max_size = 2;
	check_bytes(2, 2);
	make_trace();
	query.min_size = 100;
	check_bytes(0, 0);
}

HT_TEST(ages_are_lives)
{
	make_trace();
	query.min_age_ns = 1500000;
	check_bytes(14, 2);
	make_trace();
	query.max_age_ns = 1500000;
	check_bytes(1, 1);
	make_trace();
	query.max_age_ns = 3000000;
	check_bytes(11, 3);
	make_trace();
	query.min_age_ns = 1500000;
	query.max_size = 4;
	check_bytes(6, 2);
}

HT_TEST(a_peak_of_sizes_is_exact_and_one_of_ages_an_estimate)
{
	make_trace();
	query.min_size = 2;
	analysis = scene_analyze_blocks(&scene, &query);
	ck_assert(!analysis->cube.is_peak_estimate);
	ck_assert_uint_eq(analysis->cube.peak_bytes, 12);
	analysis_destroy(analysis);
	scene_deinit(&scene);
	make_trace();
	query.max_age_ns = 3000000;
	analysis = scene_analyze_blocks(&scene, &query);
	ck_assert(analysis->cube.is_peak_estimate);
	ck_assert_uint_eq(analysis->cube.peak_bytes, 8);
	ck_assert_uint_eq(analysis->cube.before_frees, 0);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

/* Times are those of the trace, even if no block of its first step is chosen. */
HT_TEST(a_trace_of_which_nothing_is_chosen)
{
	scene_init(&scene);
	query_init(&query);
	query.min_size = 2;
	scene_malloc(&scene, 0, 0x1000, 1, 0);
	analysis = scene_analyze_blocks(&scene, &query);
	ck_assert_uint_eq(analysis->cube.timeline.count, 1);
	ck_assert_uint_eq(analysis->cube.total.allocations, 0);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_SUITE("analyzer/blocks")
