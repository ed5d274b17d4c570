/* SPDX-License-Identifier: Apache-2.0
 *
 * Collapsed stacks: root first, one line per stack, separators safe, sums equal to the totals.
 */
#include <stdlib.h>

#include "analyzer/export/export.h"
#include "tests/unit/analyzer/scene.h"

static struct scene scene;
static struct analysis *analysis;

static void begin(void)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/lib/lib;x.so", "12345678901234567890", 0x400000, 0x500000);
	uint32_t outer = tracebuild_node(&scene.trace, 0, 0x400100);
	uint32_t leaf = tracebuild_node(&scene.trace, outer, 0x400200);
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0x1ff,
			.frame_count = 2,
			.frame = {{.function = {"in;ner\n", 7}}, {.function = {"caller", 6}}}},
	};
	tracebuild_put(&scene.trace, &symbol);
	scene_malloc(&scene, 0, 0x1000, 100, leaf);
	scene_malloc(&scene, 0, 0x2000, 30, leaf);
	scene_free(&scene, 0, 0x2000, 40);
	scene_malloc(&scene, 0, 0x3000, 7, outer);
	scene_malloc(&scene, 0, 0x4000, 1, 0);
	scene_free(&scene, 0, 0x4000, 24);
	analysis = scene_analyze(&scene);
}

static void check(enum metric metric, bool wrappers, const char *want)
{
	char *got = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&got, &length);
	struct view *view = scene_view_of_all(analysis, wrappers);
	struct export_job job = {.view = view, .metric = metric};
	ck_no_err(export_collapsed(out, &job));
	view_destroy(view);
	fclose(out);
	ck_assert_str_eq(got, want);
	free(got);
}

HT_TEST(each_metric_has_its_lines)
{
	begin();
	check(METRIC_OUTSTANDING, false, "lib:x.so+0xff;caller;in:ner? 100\nlib:x.so+0xff 7\n");
	check(METRIC_PEAK, false, "lib:x.so+0xff;caller;in:ner? 130\n");
	check(METRIC_ALLOCATED, false,
		"lib:x.so+0xff;caller;in:ner? 130\nlib:x.so+0xff 7\n(no stack) 1\n");
	check(METRIC_CALLS, false,
		"lib:x.so+0xff;caller;in:ner? 2\nlib:x.so+0xff 1\n(no stack) 1\n");
	check(METRIC_TEMPORARY, false, "lib:x.so+0xff;caller;in:ner? 1\n(no stack) 1\n");
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_TEST(a_flame_ends_in_who_allocated)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/lib/libx.so", "12345678901234567890", 0x400000, 0x500000);
	uint32_t user = tracebuild_node(&scene.trace, 0, 0x400100);
	uint32_t wrapper = tracebuild_node(&scene.trace, user, 0x400200);
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0xff,
			.frame_count = 2,
			.frame = {{.function = {"std::f()", 8}}, {.function = {"user()", 6}}}},
	};
	tracebuild_put(&scene.trace, &symbol);
	tracebuild_symbol(&scene.trace, 1, 0x1ff, "operator new(unsigned long)", NULL, 0);
	scene_malloc(&scene, 0, 0x1000, 10, wrapper);
	scene_malloc(&scene, 0, 0x2000, 10, wrapper);
	scene_malloc(&scene, 0, 0x3000, 10, user);
	analysis = scene_analyze(&scene);
	check(METRIC_CALLS, false, "user() 3\n");
	check(METRIC_CALLS, true,
		"user();std::f();operator new(unsigned long) 2\nuser();std::f() 1\n");
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

/* U+009B is a terminal's CSI; as a single byte it is not valid UTF-8. U+202E reverses the direction
 * of the text that follows. */
HT_TEST(a_terminal_obeys_no_name)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/lib/libx.so", "12345678901234567890", 0x400000, 0x500000);
	uint32_t user = tracebuild_node(&scene.trace, 0, 0x400100);
	tracebuild_symbol(&scene.trace, 1, 0xff,
		"a\xc2\x9b"
		"31m\x9b\x1b\x7f\xe2\x80\xae\xc3\xbc",
		NULL, 0);
	scene_malloc(&scene, 0, 0x1000, 10, user);
	analysis = scene_analyze(&scene);
	check(METRIC_CALLS, true, "a?31m????\xc3\xbc 1\n");
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

/* One chain is in the older trace alone, and one in the newer: the other column has a 0. */
HT_TEST(two_traces_are_compared_by_name)
{
	struct scene other;
	char *got = NULL;
	size_t length = 0;
	begin();
	scene_init(&other);
	tracebuild_module(&other.trace, 1, "/usr/lib/liby.so", NULL, 0x700000, 0x800000);
	const uint32_t node = tracebuild_node(&other.trace, 0, 0x700900);
	tracebuild_symbol(&other.trace, 1, 0x8ff, "lib:x.so+0xff", NULL, 0);
	scene_malloc(&other, 0, 0x1000, 37, node);
	scene_malloc(&other, 0, 0x2000, 5, 0);
	struct analysis *newer = scene_analyze(&other);
	struct view *view = scene_view(newer, NULL), *older = scene_view(analysis, NULL);
	struct export_job job = {.view = view, .older = older, .metric = METRIC_OUTSTANDING};
	FILE *out = open_memstream(&got, &length);
	ck_no_err(export_difffolded(out, &job));
	fclose(out);
	ck_assert_str_eq(got, "lib:x.so+0xff;caller;in:ner? 100 0\nlib:x.so+0xff 7 37\n"
			      "(no stack) 0 5\n");
	free(got);
	view_destroy(view);
	view_destroy(older);
	analysis_destroy(newer);
	analysis_destroy(analysis);
	scene_deinit(&other);
	scene_deinit(&scene);
}

/* Two rows differ by their lines alone, and a folded chain has no lines. */
HT_TEST(chains_that_read_the_same_add_up)
{
	char *got = NULL;
	size_t length = 0;
	scene_init(&scene);
	tracebuild_module(&scene.trace, 1, "/usr/lib/libx.so", NULL, 0x400000, 0x500000);
	for (uint32_t i = 1; i < 3; i++) {
		const uint32_t node = tracebuild_node(&scene.trace, 0, 0x400000 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0x100 * i - 1, "f", "f.c", i);
		scene_malloc(&scene, 0, 0x1000 * i, 10 * i, node);
	}
	analysis = scene_analyze(&scene);
	struct view *view = scene_view(analysis, NULL);
	struct export_job job = {.view = view, .older = view, .metric = METRIC_OUTSTANDING};
	FILE *out = open_memstream(&got, &length);
	ck_no_err(export_difffolded(out, &job));
	fclose(out);
	ck_assert_str_eq(got, "f 30 30\n");
	free(got);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_SUITE("analyzer/collapsed")
