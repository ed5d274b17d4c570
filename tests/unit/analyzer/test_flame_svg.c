/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as SVG: names of a trace are text and nothing else, whatever they hold, and the
 * file has all that it needs in itself.
 */
#include "analyzer/ui/flame_svg.h"

#include <stdlib.h>

#include "format/foreign.h"
#include "tests/unit/analyzer/stage.h"

static struct stage stage;
static char *svg;
static size_t svg_length;

static void draw(enum metric metric, bool is_top_down)
{
	struct calls calls;
	struct flame flame;
	const struct calls_options options = {
		.grouping = GROUPING_FUNCTION, .metric = metric, .sort = metric};
	const struct calls_text page = {.calls = &calls};
	struct analysis *analysis = scene_analyze(&stage.scene);
	struct view *view = scene_view(analysis, NULL);
	FILE *out = open_memstream(&svg, &svg_length);
	ck_no_err(calls_init(&calls, view, &options));
	ck_no_err(flame_init(&flame, &calls, 0, 0));
	ck_no_err(flame_svg_write(out, &page, &flame, is_top_down));
	fclose(out);
	flame_deinit(&flame);
	calls_deinit(&calls);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static size_t count_of(const char *part)
{
	size_t count = 0;
	for (const char *at = svg; (at = strstr(at, part)); at += strlen(part))
		count++;
	return count;
}

/* Checks that the file is valid XML 1.0 and UTF-8, and has no markup except heaptap's own. */
static void check_harmless(void)
{
	for (size_t at = 0; at < svg_length;) {
		uint32_t point;
		const size_t size = foreign_decode(svg + at, svg_length - at, &point);
		ck_assert_msg(size > 0, "no UTF-8 at %zu", at);
		ck_assert_msg(point == '\n' || point == '\t' || foreign_is_harmless(point),
			"U+%04X at %zu", point, at);
		ck_assert_msg((point & 0xfffe) != 0xfffe && (point < 0xfdd0 || point > 0xfdef),
			"no character: U+%04X at %zu", point, at);
		at += size;
	}
	ck_assert_uint_eq(count_of("<script"), 1);
	ck_assert_uint_eq(count_of("</script"), 1);
	ck_assert_uint_eq(count_of("]]>"), 1);
	ck_assert_uint_eq(count_of("<svg"), 1);
	ck_assert_uint_eq(count_of("onload"), 0);
	ck_assert_uint_eq(count_of("<g class=\"f "), count_of("<title>"));
}

HT_TEST(hostile_names_are_text)
{
	static const char *const name[] = {
		"\"><script>alert(1)</script>",
		"'/><image href=x onerror=alert(1)>",
		"]]></script><svg>",
		"a\nb\rc\x01",
		"\xff\xfe\xc0\x80",
		"\xe2\x80\xaegnp.exe\xe2\x81\xa6",
		"\xef\xbf\xbf\xef\xbf\xbe\xef\xb7\x90",
		"&lt;&amp;&#60;",
		"${x}`y`\\u003c",
	};
	char *huge = malloc(2 << 20);
	ck_assert_ptr_nonnull(huge);
	memset(huge, '<', 2 << 20);
	huge[(2 << 20) - 1] = '\0';
	stage_begin(&stage);
	for (size_t i = 0; i < HT_ARRAY_SIZE(name); i++)
		stage_alloc(&stage, 0, 100 + i, stage_node(&stage, 0, name[i], NULL));
	stage_alloc(&stage, 0, 1000, stage_node(&stage, 0, huge, NULL));
	draw(METRIC_OUTSTANDING, false);
	check_harmless();
	ck_assert_ptr_nonnull(strstr(svg, "&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;"));
	ck_assert_ptr_nonnull(strstr(svg, "&#38;lt;&#38;amp;&#38;#60;"));
	ck_assert_uint_lt(svg_length, 64 << 10);
	free(huge);
	free(svg);
}

HT_TEST(boxes_have_name_value_and_share)
{
	stage_begin(&stage);
	uint32_t start = stage_node(&stage, 0, "main", NULL);
	stage_alloc(&stage, 0, 3 << 10, stage_node(&stage, start, "app::grow(int)", NULL));
	stage_alloc(&stage, 0, 1 << 10, start);
	draw(METRIC_OUTSTANDING, false);
	check_harmless();
	ck_assert_ptr_nonnull(strstr(svg, "<title>app::grow(int)\n3.0 KiB, 75.0 %, app</title>"));
	ck_assert_ptr_nonnull(strstr(svg, "<title>main\n4.0 KiB, 100.0 %, x</title>"));
	ck_assert_ptr_nonnull(strstr(svg, "data-root=\"bottom\""));
	/* The root is the lowest row. */
	ck_assert_ptr_nonnull(strstr(svg, "100.0 %</title><rect x=\"10.00\" y=\"100\""));
	free(svg);
}

/* A block of 4095 bytes in a sample of one in 4096 counts for 6478 bytes, with a bound of 10,146;
 * two have 12,738 (test_compare.c). */
HT_TEST(boxes_of_a_sample_have_bounds)
{
	stage_begin_sample(&stage, 4096);
	const uint32_t start = stage_node(&stage, 0, "main", NULL);
	stage_alloc(&stage, 0, 4095, stage_node(&stage, start, "one", NULL));
	stage_alloc(&stage, 0, 4095, stage_node(&stage, start, "two", NULL));
	draw(METRIC_OUTSTANDING, true);
	ck_assert_ptr_nonnull(strstr(svg, "outstanding 12.7 KiB \xc2\xb1"
					  "98 %</text>"));
	ck_assert_ptr_nonnull(strstr(svg, "<title>main\n12.7 KiB \xc2\xb1"
					  "98 %, 100.0 %"));
	ck_assert_ptr_nonnull(strstr(svg, "<title>one\n6.3 KiB \xc2\xb1"
					  "157 %, 50.0 %"));
	free(svg);
}

HT_TEST(nothing_is_fetched)
{
	stage_begin(&stage);
	stage_alloc(&stage, 0, 10, stage_node(&stage, 0, "main", NULL));
	draw(METRIC_CALLS, true);
	check_harmless();
	ck_assert_uint_eq(count_of("http"), 1); /* the name of SVG's namespace */
	ck_assert_uint_eq(count_of("href"), 0);
	ck_assert_uint_eq(count_of("url("), 0);
	ck_assert_uint_eq(count_of("import"), 0);
	ck_assert_uint_eq(count_of("innerHTML"), 0);
	ck_assert_uint_eq(count_of("eval"), 0);
	ck_assert_ptr_nonnull(strstr(svg, "data-root=\"top\""));
	ck_assert_ptr_nonnull(strstr(svg, "data-unit=\"count\""));
	free(svg);
}

HT_TEST(stacks_that_shrank_are_named_and_left_out)
{
	stage_begin(&stage);
	stage_alloc(&stage, 0, 10, stage_node(&stage, 0, "main", NULL));
	draw(METRIC_LIFETIME - 1, false); /* all blocks are freed: no value */
	ck_assert_ptr_nonnull(strstr(svg, "nothing: another --metric"));
	ck_assert_uint_eq(count_of("<title>"), 0);
	free(svg);
}

/* The graph draws only FLAME_DEPTH_MAX frames of a chain of 3,000. */
HT_TEST(large_trees_are_bounded)
{
	uint32_t at = 0;
	stage_begin(&stage);
	for (int i = 0; i < 3000; i++)
		at = stage_node(&stage, at, i % 2 ? "even" : "odd", NULL);
	stage_alloc(&stage, 0, 1000, at);
	draw(METRIC_OUTSTANDING, false);
	check_harmless();
	ck_assert_uint_eq(count_of("<title>"), FLAME_DEPTH_MAX + 1);
	free(svg);
}

HT_SUITE("analyzer/flame_svg")
