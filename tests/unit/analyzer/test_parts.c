/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks by thread, by function of the allocator and by size.
 */
#include "analyzer/views/parts.h"

#include <stdlib.h>

#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/scene.h"

static struct scene scene;
static struct analysis *analysis;
static struct view *view;
static struct part *part;
static size_t count;

static void begin(const struct query *query)
{
	scene_init(&scene);
	scene_malloc(&scene, 0, 0x1000, 100, 0);
	scene_alloc(&scene, 1, ABI_HOOK_CALLOC, 0x2000, 127, 0);
	scene_alloc(&scene, 1, ABI_HOOK_CALLOC, 0x3000, 128, 0);
	scene_malloc(&scene, 1, 0x4000, 0, 0);
	scene_free(&scene, 0, 0x3000, 128);
	analysis = scene_analyze(&scene);
	view = scene_view(analysis, query);
}

static void find(enum parts_by by)
{
	struct sums sum = {0};
	free(part);
	ck_no_err(parts_find(view, by, &part, &count));
	for (size_t i = 0; i < count; i++)
		sums_add(&sum, &part[i].sums);
	made_check_sums(&sum, &view->total);
}

static void end(void)
{
	free(part);
	part = NULL;
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static void check(size_t at, uint32_t key, uint64_t allocations, uint64_t bytes, uint64_t frees)
{
	ck_assert_uint_lt(at, count);
	ck_assert_uint_eq(part[at].key, key);
	ck_assert_uint_eq(part[at].sums.allocations, allocations);
	ck_assert_uint_eq(part[at].sums.allocated_bytes, bytes);
	ck_assert_uint_eq(part[at].sums.frees, frees);
}

HT_TEST(blocks_are_in_one_part_each)
{
	begin(NULL);
	find(PARTS_THREAD);
	check(0, 0, 1, 100, 0);
	check(1, 1, 3, 255, 1);
	ck_assert_uint_eq(count, 2);
	find(PARTS_FUNCTION);
	check(0, ABI_HOOK_MALLOC, 2, 100, 0);
	check(1, ABI_HOOK_CALLOC, 2, 255, 1);
	ck_assert_uint_eq(count, 2);
	find(PARTS_SIZE);
	check(0, 0, 1, 0, 0);
	check(1, 7, 2, 227, 0);
	check(2, 8, 1, 128, 1);
	ck_assert_uint_eq(count, 3);
	end();
}

HT_TEST(parts_are_sorted_by_a_metric)
{
	begin(NULL);
	find(PARTS_SIZE);
	parts_sort(part, count, METRIC_OUTSTANDING);
	ck_assert_uint_eq(part[0].key, 7);
	ck_assert_uint_eq(part[1].key, 0); /* equal to the next: ordered by key */
	ck_assert_uint_eq(part[2].key, 8);
	parts_sort(part, count, METRIC_FREED);
	ck_assert_uint_eq(part[0].key, 8);
	end();
}

HT_TEST(parts_exclude_filtered_blocks)
{
	struct query query;
	query_init(&query);
	ck_no_err(query_add(&query.threads, "--thread", "100"));
	begin(&query);
	find(PARTS_THREAD);
	check(0, 0, 1, 100, 0);
	ck_assert_uint_eq(count, 1);
	find(PARTS_FUNCTION);
	ck_assert_uint_eq(count, 1);
	end();
}

HT_TEST(size_classes_have_bounds)
{
	ck_assert_uint_eq(parts_size_from(0), 0);
	ck_assert_uint_eq(parts_size_to(0), 0);
	for (unsigned i = 1; i < CUBE_SIZE_CLASSES; i++) {
		ck_assert_uint_eq(parts_size_from(i), parts_size_to(i - 1) + 1);
		ck_assert_uint_eq(cube_size_class(parts_size_from(i)), i);
		ck_assert_uint_eq(cube_size_class(parts_size_to(i)), i);
	}
	ck_assert_uint_eq(parts_size_to(64), UINT64_MAX);
}

HT_SUITE("analyzer/parts")
