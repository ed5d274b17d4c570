/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a page: frames that are folded into their callers to make the page smaller leave
 * the sums unchanged.
 */
#include "analyzer/page/page.h"
#include "analyzer/page/tables.h"
#include "tests/support/random.h"
#include "tests/unit/analyzer/scene.h"

#include <stdlib.h>
#include <string.h>

#define LEAVES 400u

/* Makes a trace in which main calls many functions, of which the first allocates most. */
static struct view *view_of_many(struct scene *scene, struct analysis **analysis)
{
	scene_init(scene);
	tracebuild_module(
		&scene->trace, 1, "/usr/bin/target", "12345678901234567890", 0x400000, 0x800000);
	tracebuild_thread(&scene->trace, SCENE_TID(0), "worker");
	const uint32_t outer = tracebuild_node(&scene->trace, 0, 0x400100);
	for (uint32_t i = 0; i < LEAVES; i++) {
		const uint32_t leaf = tracebuild_node(&scene->trace, outer, 0x401000 + i * 64);
		const uint64_t address = 0x10000 + i * 0x1000;
		scene_malloc(scene, 0, address, i ? 100 : 50000, leaf);
		scene_free(scene, 0, address, i ? 100 : 50000);
	}
	*analysis = scene_analyze(scene);
	return scene_view(*analysis, NULL);
}

static uint64_t allocated(const struct page_tables *tables)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < tables->cell_count; i++)
		bytes += tables->cell[i].counts.allocated_bytes;
	return bytes;
}

HT_TEST(what_is_folded_is_in_its_callers)
{
	struct scene scene;
	struct analysis *analysis;
	struct suspects none = {0};
	struct view *view = view_of_many(&scene, &analysis);
	const uint64_t least[] = {0, 101, 60000, UINT64_MAX};
	const uint32_t kept[] = {LEAVES + 2, 3, 2, 1};
	for (size_t i = 0; i < HT_ARRAY_SIZE(least); i++) {
		struct fold fold;
		struct page_tables tables;
		ck_no_err(fold_init(&fold, view, &none, least[i]));
		ck_no_err(page_tables_init(&tables, view, &fold));
		ck_assert_uint_eq(fold.count, kept[i]);
		ck_assert_uint_eq(fold.count + fold.folded, LEAVES + 2);
		ck_assert_uint_eq(allocated(&tables), 50000 + (LEAVES - 1) * 100);
		page_tables_deinit(&tables);
		fold_deinit(&fold);
	}
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static char *written(const struct view *view, uint64_t bytes_max, struct page_result *ret)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	ck_no_err(page_write(out, view, &(struct page_more){0}, bytes_max, ret));
	ck_assert_int_eq(fclose(out), 0);
	ck_assert(length >= ret->bytes && length < ret->bytes + 200);
	return text;
}

HT_TEST(a_page_is_folded_until_it_is_small_enough)
{
	struct scene scene;
	struct analysis *analysis;
	struct page_result whole, small;
	struct view *view = view_of_many(&scene, &analysis);
	if (!page_is_built()) {
		printf("skipped: page: this build has no libjs-dygraphs\n");
		return;
	}
	free(written(view, PAGE_BYTES_MAX, &whole));
	ck_assert_uint_eq(whole.folded, 0);
	ck_assert_uint_eq(whole.least_bytes, 0);
	char *text = written(view, whole.bytes - 1, &small);
	ck_assert_uint_gt(small.folded, 0);
	ck_assert_uint_lt(small.bytes, whole.bytes);
	ck_assert_uint_gt(small.least_bytes, 0);
	ck_assert_ptr_eq(strstr(text, "<!DOCTYPE html>"), text);
	ck_assert_ptr_nonnull(strstr(text, "default-src 'none'; script-src 'sha256-"));
	ck_assert_ptr_null(strstr(text, "http://"));
	free(text);
	FILE *out = fopen("/dev/null", "we");
	ck_err_says(page_write(out, view, &(struct page_more){0}, 1000, &small), HT_ERR_FORMAT,
		"more than 1000");
	fclose(out);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

#define SLOTS 500u
#define LIVES 60000u

/* A cache: each block has one of few sizes, and lives for a random time, over many buckets. Returns
 * the bytes of the page. */
static uint64_t bytes_of_cache(uint32_t lives, size_t *ret_survivors)
{
	struct scene scene;
	struct page_result result;
	uint64_t random = 7, size[SLOTS] = {0};
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/target", "12345678901234567890", 0x400000, 0x800000);
	tracebuild_thread(&scene.trace, SCENE_TID(0), "worker");
	const uint32_t node = tracebuild_node(&scene.trace, 0, 0x400100);
	for (uint32_t i = 0; i < lives; i++) {
		const uint64_t slot = random_below(&random, SLOTS), addr = 0x10000 + slot * 0x1000;
		if (size[slot])
			scene_free(&scene, 0, addr, size[slot]);
		size[slot] = 64u << random_below(&random, 3);
		scene.now += 1 + random_below(&random, 1u << 20);
		scene_malloc(&scene, 0, addr, size[slot], node);
	}
	struct analysis *analysis = scene_analyze(&scene);
	struct view *view = scene_view(analysis, NULL);
	*ret_survivors = analysis->cube.survivor_count;
	free(written(view, PAGE_BYTES_MAX, &result));
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
	return result.bytes;
}

HT_TEST(what_can_be_expected_takes_no_room)
{
	size_t none, survivors;
	if (!page_is_built()) {
		printf("skipped: page: this build has no libjs-dygraphs\n");
		return;
	}
	const uint64_t frame = bytes_of_cache(1, &none);
	const uint64_t bytes = bytes_of_cache(LIVES, &survivors) - frame;
	ck_assert_uint_eq(none, 0);
	ck_assert_uint_gt(survivors, LIVES / 4);
	/* A survivor takes 6.2 bytes of base64; with plain columns it would take 7.7. */
	ck_assert_uint_lt(bytes, survivors * 7);
}

HT_SUITE("analyzer/page")
