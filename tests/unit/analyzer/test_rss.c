/* SPDX-License-Identifier: Apache-2.0
 *
 * RSS against the trace: what is explained, and where the warning begins.
 */
#include "analyzer/agg/rss.h"

#include <string.h>

#include "analyzer/agg/warnings.h"
#include "tests/unit/analyzer/scene.h"

#define MIB 1048576u

static struct scene scene;
static struct analysis *analysis;

static struct rss_growth finish(void)
{
	analysis = scene_analyze(&scene);
	return rss_growth_of(analysis);
}

static void end(void)
{
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static size_t count_warnings(void)
{
	struct warnings warnings;
	ck_no_err(warnings_collect(analysis, &warnings));
	size_t count = warnings.count;
	if (count)
		ck_assert_ptr_nonnull(strstr(warnings.text[0], "RSS grew by "));
	warnings_deinit(&warnings);
	return count;
}

/* 100 MiB are held in two blocks, 30 are given back, of another 20 the window does not know. */
static void begin(uint64_t first_bytes, uint64_t last_bytes)
{
	scene_init(&scene);
	tracebuild_rss(&scene.trace, scene.now, first_bytes);
	scene_malloc(&scene, 0, 0x1000, 70 * MIB, 0);
	scene_malloc(&scene, 0, 0x2000, 30 * MIB, 0);
	scene_free(&scene, 0, 0x2000, 30 * MIB);
	scene_free(&scene, 0, 0x3000, 20 * MIB);
	scene_sync(&scene);
	tracebuild_rss(&scene.trace, scene.now, 999 * (uint64_t)MIB);
	tracebuild_rss(&scene.trace, scene.now, last_bytes);
}

START_TEST(growth_is_from_first_to_last)
{
	begin(10 * MIB, 72 * MIB);
	struct rss_growth rss = finish();
	ck_assert(rss.known && !rss.is_unexplained);
	ck_assert_int_eq(rss.growth_bytes, 62 * MIB);
	ck_assert_int_eq(rss.explained_bytes, 50 * MIB);
	/* The peak and half of it, two blocks, heaptap with one thread. */
	ck_assert_uint_eq(rss.explicable_bytes, 150 * MIB + 2 * 32 + 32 * MIB + MIB / 4);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}
END_TEST

START_TEST(the_warning_begins_behind_what_is_explicable)
{
	const uint64_t most = 150 * MIB + 2 * 32 + 32 * MIB + MIB / 4;
	for (unsigned more = 0; more < 2; more++) {
		begin(10 * MIB, 10 * MIB + most + more);
		ck_assert_int_eq(finish().is_unexplained, more);
		ck_assert_uint_eq(count_warnings(), more);
		end();
	}
}
END_TEST

START_TEST(what_shrinks_is_no_hole)
{
	begin(500 * MIB, 10 * MIB);
	struct rss_growth rss = finish();
	ck_assert_int_eq(rss.growth_bytes, -490 * (int64_t)MIB);
	ck_assert(!rss.is_unexplained);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}
END_TEST

START_TEST(without_samples_nothing_is_said)
{
	scene_init(&scene);
	scene_free(&scene, 0, 0x1000, 100);
	struct rss_growth rss = finish();
	ck_assert(!rss.known);
	ck_assert_int_eq(rss.explained_bytes, -100);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}
END_TEST

START_TEST(sizes_of_any_kind_stay_in_range)
{
	scene_init(&scene);
	tracebuild_rss(&scene.trace, scene.now, 1);
	scene_malloc(&scene, 0, 0x1000, UINT64_MAX - 5, 0);
	scene_free(&scene, 0, 0x3000, 7);
	tracebuild_rss(&scene.trace, scene.now, UINT64_MAX);
	struct rss_growth rss = finish();
	ck_assert_int_eq(rss.growth_bytes, INT64_MAX);
	ck_assert_int_eq(rss.explained_bytes, INT64_MAX);
	ck_assert_uint_eq(rss.explicable_bytes, UINT64_MAX);
	ck_assert(!rss.is_unexplained);
	end();
}
END_TEST

HT_SUITE("analyzer/rss", growth_is_from_first_to_last, the_warning_begins_behind_what_is_explicable,
	what_shrinks_is_no_hole, without_samples_nothing_is_said, sizes_of_any_kind_stay_in_range)
