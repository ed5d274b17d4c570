/* SPDX-License-Identifier: Apache-2.0
 *
 * Random windows of random histories: every sum and every series equals what a naive recomputation
 * from the list of all blocks gives.
 */
#include "analyzer/cube/window.h"

#include "tests/unit/analyzer/made.h"

#define SEEDS	6u
#define WINDOWS 12u

static struct made made;
static struct cube cube;
static struct sums *got, *want;
static struct window window;

static void begin(uint64_t seed)
{
	static const uint64_t gap_ns[] = {2000, 40000, 3000000};
	made = (struct made){.nodes = 20,
		.gap_ns = gap_ns[seed % HT_ARRAY_SIZE(gap_ns)],
		.sample_bytes = seed % 2 ? 0 : 4096};
	cube = (struct cube){0};
	cube_init(&cube);
	made_play(&made, seed, &cube);
	ck_no_err(cube_finish(&cube));
	made_find_sites(&made, &cube);
	want = calloc(cube.site_count, sizeof(*want));
}

static void end(void)
{
	cube_deinit(&cube);
	free(want);
}

static void choose_window(void)
{
	const uint32_t count = (uint32_t)cube.timeline.count;
	window.from = (uint32_t)random_below(&made.random, count);
	window.to = window.from + 1 + (uint32_t)random_below(&made.random, count - window.from);
	if (random_below(&made.random, 6) == 0)
		window = window_whole(&cube);
}

static void compare_sums(void)
{
	for (size_t i = 0; i < cube.site_count; i++)
		made_check_sums(&got[i], &want[i]);
	free(got);
	memset(want, 0, cube.site_count * sizeof(*want));
}

/* Returns the largest number of live bytes in the bucket: before its first event or after an
 * allocation. */
static uint64_t highest_in(uint32_t bucket)
{
	const uint64_t from_ns = bucket * cube.step_ns, to_ns = from_ns + cube.step_ns;
	uint64_t highest = 0;
	for (size_t moment = 0; moment <= made.count; moment++) {
		const uint64_t time_ns =
			moment < made.count ? made.block[moment].block.birth_ns : from_ns;
		uint64_t bytes = 0;
		if (time_ns < from_ns || time_ns >= to_ns)
			continue;
		for (size_t i = 0; i < made.count && (moment == made.count || i <= moment); i++)
			if (made.block[i].block.birth_ns <= time_ns &&
				(moment < made.count || made.block[i].block.birth_ns < time_ns) &&
				made.block[i].death_ns >= time_ns)
				bytes += made_share(&made, i).bytes;
		if (highest < bytes)
			highest = bytes;
	}
	return highest;
}

/* Returns the first bucket with the largest number of live bytes. */
static uint32_t naive_peak_bucket(uint64_t *ret_bytes)
{
	uint32_t bucket = window.from;
	*ret_bytes = 0;
	for (uint32_t i = window.from; i < window.to; i++) {
		const uint64_t bytes = highest_in(i);
		if (bytes <= *ret_bytes)
			continue;
		*ret_bytes = bytes;
		bucket = i;
	}
	return bucket;
}

static void add_peaks(void)
{
	const bool is_whole = window_is_whole(&cube, window);
	const struct window_peak peak = window_peak(&cube, window);
	uint64_t bytes = made.peak_bytes;
	const uint32_t bucket = is_whole ? 0 : naive_peak_bucket(&bytes);
	ck_assert_uint_eq(peak.bytes, bytes);
	if (is_whole)
		ck_assert_uint_eq(peak.time_ns, made.peak_time_ns);
	else
		ck_assert_uint_eq(peak.bucket, bucket);
	for (size_t i = 0; i < made.count; i++)
		if (is_whole ? made.at_peak[i] : made_is_live(&made, &cube, i, bucket + 1))
			want[made.block[i].site].peak_bytes += made_share(&made, i).bytes;
}

static void check_window(void)
{
	for (size_t i = 0; i < made.count; i++)
		made_add(&made, &cube, i, window, &want[made.block[i].site]);
	add_peaks();
	ck_no_err(window_sums(&cube, window, &got));
	compare_sums();
}

HT_TEST(sums_are_those_of_the_blocks)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		begin(seed);
		ck_assert_uint_gt(cube.survivor_count, 100);
		ck_assert_uint_ge(cube.timeline.count, 8);
		for (unsigned i = 0; i < WINDOWS; i++) {
			choose_window();
			check_window();
		}
		end();
	}
}

static void check_alive(void)
{
	const uint32_t alive =
		window.from + (uint32_t)random_below(&made.random, window.to - window.from);
	const struct window until = {window.from, alive + 1};
	for (size_t i = 0; i < made.count; i++) {
		struct sums *sums = &want[made.block[i].site];
		if (made_bucket(&cube, made.block[i].block.birth_ns) < window.from ||
			!made_is_live(&made, &cube, i, until.to))
			continue;
		const struct sample_share share = made_share(&made, i);
		sums->allocations += share.blocks;
		sums->allocated_bytes += share.bytes;
		sums->peak_bytes += share.bytes;
		if (made_is_live(&made, &cube, i, window.to)) {
			sums->live_blocks += (int64_t)share.blocks;
			sums->live_bytes += (int64_t)share.bytes;
		} else {
			made_add_death(&made, i, sums);
		}
	}
	ck_no_err(window_sums_alive(&cube, window, alive, &got));
	for (size_t i = 0; i < cube.site_count; i++) {
		want[i].growth_blocks = want[i].live_blocks;
		want[i].growth_bytes = want[i].live_bytes;
		/* In a sample it is unknown how many of these blocks were recorded. */
		want[i].samples = made.sample_bytes ? got[i].samples : want[i].allocations;
		ck_assert_uint_le(got[i].samples, want[i].allocations);
	}
	compare_sums();
}

HT_TEST(blocks_alive_at_a_moment)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		begin(seed);
		for (unsigned i = 0; i < WINDOWS; i++) {
			choose_window();
			check_alive();
		}
		end();
	}
}

/* --- series ------------------------------------------------------------------------------------
 */

static void add_to_series(struct window_series *series, size_t at)
{
	const uint32_t birth = made_bucket(&cube, made.block[at].block.birth_ns);
	const uint32_t death = made_bucket(&cube, made.block[at].death_ns);
	const struct sample_share share = made_share(&made, at);
	const uint64_t life_ns = made.block[at].death_ns - made.block[at].block.birth_ns;
	if (made.block[at].death_ns != MADE_LIVES && series->longest_ns < life_ns)
		series->longest_ns = life_ns;
	if (birth < window.from || birth >= window.to)
		return;
	series->allocated_blocks[birth - window.from] += share.blocks;
	series->allocated_bytes[birth - window.from] += share.bytes;
	if (death < window.to) {
		series->freed_blocks[death - window.from] += share.blocks;
		series->freed_by_age[death - birth] += share.blocks;
	} else {
		series->surviving_blocks[birth - window.from] += share.blocks;
		series->surviving_bytes[birth - window.from] += share.bytes;
	}
	for (uint32_t i = birth; i < window.to && i < death; i++)
		series->live_bytes[i - window.from] += (int64_t)share.bytes;
}

static void add_older_to_series(struct window_series *series, const bool has_class[])
{
	for (size_t i = 0; i < made.older_count; i++) {
		const uint32_t bucket = made_bucket(&cube, made.older[i].time_ns);
		if (window.from <= bucket && bucket < window.to &&
			has_class[cube_size_class(made.older[i].usable_bytes)])
			series->older_freed_blocks[bucket - window.from]++;
	}
}

static void check_series(void)
{
	static struct window_series series, naive;
	bool is_in[4096] = {false}, has_class[CUBE_SIZE_CLASSES] = {false};
	uint32_t site[4096];
	size_t count = 0;
	naive = (struct window_series){.count = window.to - window.from};
	ck_assert_uint_le(cube.site_count, HT_ARRAY_SIZE(site));
	for (uint32_t i = 0; i < cube.site_count; i++) {
		if (random_below(&made.random, 3))
			continue;
		is_in[i] = true;
		has_class[cube_site_size_class(&cube.site[i])] = true;
		site[count++] = i;
	}
	for (size_t i = 0; i < made.count; i++)
		if (is_in[made.block[i].site])
			add_to_series(&naive, i);
	add_older_to_series(&naive, has_class);
	window_series(&cube, window, site, count, &series);
	ck_assert_mem_eq(&series, &naive, sizeof(series));
}

HT_TEST(series_are_those_of_the_blocks)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		begin(seed);
		for (unsigned i = 0; i < WINDOWS; i++) {
			choose_window();
			check_series();
		}
		end();
	}
}

HT_TEST(times_become_whole_buckets)
{
	static const struct {
		uint64_t from_ms, to_ms;
		struct window want;
	} cases[] = {
		{0, 10, {0, 10}}, /* of ten buckets of a millisecond */
		{2, 4, {2, 4}},
		{2, 2, {2, 3}},
		{9, 99, {9, 10}},
		{10, 99, {9, 10}},
		{1ull << 40, 1ull << 41, {9, 10}},
	};
	const struct replay_call call = {.time_ns = 9500000};
	struct live_block block = {.addr = 1, .size = 1, .birth_ns = 9500000};
	cube_init(&cube);
	ck_no_err(cube_allocated(&cube, &call, &block));
	ck_no_err(cube_finish(&cube));
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		window = window_snap(&cube, cases[i].from_ms * 1000000, cases[i].to_ms * 1000000);
		ck_assert_uint_eq(window.from, cases[i].want.from);
		ck_assert_uint_eq(window.to, cases[i].want.to);
	}
	window = window_snap(&cube, 2000001, 3000001);
	ck_assert_uint_eq(window.from, 2);
	ck_assert_uint_eq(window.to, 4);
	ck_assert_uint_eq(window_start_ns(&cube, window), 2000000);
	ck_assert_uint_eq(window_end_ns(&cube, window), 4000000);
	cube_deinit(&cube);
}

HT_TEST(an_empty_trace_has_an_empty_window)
{
	cube_init(&cube);
	ck_no_err(cube_finish(&cube));
	window = window_snap(&cube, 5, 10);
	ck_assert_uint_eq(window.from, 0);
	ck_assert_uint_eq(window.to, 0);
	ck_no_err(window_sums(&cube, window, &got));
	free(got);
	cube_deinit(&cube);
}

HT_SUITE("analyzer/window")
