/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of tree, callers and flame: what is small is summed up, deep chains fit, and nothing of a
 * name steers the terminal.
 */
#include <stdlib.h>

#include "analyzer/ui/callers_text.h"
#include "analyzer/ui/flame_text.h"
#include "analyzer/ui/tree_text.h"
#include "tests/unit/analyzer/stage.h"

static struct stage stage;
static struct analysis *analysis;
static struct view *view;
static struct calls calls;
static char *printed;
static size_t printed_length;
static struct text text;

static void begin_page(bool is_bottom_up)
{
	const struct calls_options options = {.grouping = GROUPING_FUNCTION,
		.is_bottom_up = is_bottom_up,
		.metric = METRIC_OUTSTANDING,
		.sort = METRIC_OUTSTANDING};
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	ck_no_err(calls_init(&calls, view, &options));
	text = (struct text){
		.out = open_memstream(&printed, &printed_length), .columns = 80, .has_utf8 = true};
}

static struct calls_text page(void)
{
	return (struct calls_text){.text = &text, .calls = &calls};
}

static void end_page(void)
{
	free(printed);
	calls_deinit(&calls);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static void check_width(void)
{
	for (char *line = printed, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		ck_assert_ptr_nonnull(end);
		*end = '\0';
		ck_assert_msg(text_columns(line) <= 80, "%s", line);
		*end = '\n';
	}
}

/* Returns what follows the head of the page. */
static const char *body(void)
{
	fclose(text.out);
	check_width();
	const char *found = strstr(printed, "\n\n");
	ck_assert_ptr_nonnull(found);
	return found + 2;
}

static void make_branches(void)
{
	stage_begin(&stage);
	uint32_t start = stage_node(&stage, 0, "main", NULL);
	uint32_t loop = stage_node(&stage, start, "loop", NULL);
	uint32_t big = stage_node(&stage, loop, "big", NULL);
	uint32_t small = stage_node(&stage, loop, "small", NULL);
	stage_alloc(&stage, 0, 700, stage_node(&stage, big, "grow", NULL));
	stage_alloc(&stage, 0, 200, small);
	stage_alloc(&stage, 0, 90, stage_node(&stage, small, "fill", NULL));
	stage_alloc(&stage, 0, 6, stage_node(&stage, loop, "tiny", NULL));
	stage_alloc(&stage, 0, 4, stage_node(&stage, loop, "least", NULL));
}

HT_TEST(small_rows_are_summed_up)
{
	make_branches();
	begin_page(false);
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	ck_assert_str_eq(body(), "       total   share        own  function\n"
				 "      1000 B 100.0 %             all\n"
				 "                                 main  x\n"
				 "                                 loop\n"
				 "       700 B  70.0 %             \xe2\x94\x9c big  x\n"
				 "                          700 B  \xe2\x94\x82 grow\n"
				 "       290 B  29.0 %      200 B  \xe2\x94\x9c small  x\n"
				 "        90 B   9.0 %       90 B  \xe2\x94\x82 fill\n"
				 "        10 B   1.0 %             \xe2\x94\x94 2 more\n");
	end_page();
}

HT_TEST(a_limit_shows_so_many_of_each)
{
	make_branches();
	begin_page(false);
	struct calls_text one = page();
	one.has_limit = true;
	one.limit = 1;
	ck_no_err(tree_text_write(&one));
	const char *got = body();
	ck_assert_ptr_nonnull(strstr(got, "big"));
	ck_assert_ptr_null(strstr(got, "small"));
	ck_assert_ptr_nonnull(
		strstr(got, "       300 B  30.0 %             \xe2\x94\x94 3 more\n"));
	end_page();
	make_branches();
	begin_page(false);
	struct calls_text all = page();
	all.has_limit = true;
	ck_no_err(tree_text_write(&all));
	ck_assert_ptr_nonnull(strstr(body(), "least"));
	ck_assert_ptr_null(strstr(printed, " more"));
	end_page();
}

HT_TEST(callers_stand_below_what_allocates)
{
	make_branches();
	begin_page(true);
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	ck_assert_str_eq(body(), "       value   share  function, with its callers below it\n"
				 "      1000 B 100.0 %  all\n"
				 "       700 B  70.0 %  \xe2\x94\x9c grow  x\n"
				 "                      \xe2\x94\x82 big\n"
				 "                      \xe2\x94\x82 loop\n"
				 "                      \xe2\x94\x82 main\n"
				 "       200 B  20.0 %  \xe2\x94\x9c small  x\n"
				 "                      \xe2\x94\x82 loop\n"
				 "                      \xe2\x94\x82 main\n"
				 "        90 B   9.0 %  \xe2\x94\x9c fill  x\n"
				 "                      \xe2\x94\x82 small\n"
				 "                      \xe2\x94\x82 loop\n"
				 "                      \xe2\x94\x82 main\n"
				 "        10 B   1.0 %  \xe2\x94\x94 2 more\n");
	end_page();
}

/* Each of the 60 functions has two callees with values, so that none is a chain. */
HT_TEST(sixty_levels_fit_into_eighty_columns)
{
	char name[200];
	uint32_t at = 0;
	stage_begin(&stage);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "space::deep_function_with_a_long_name_%d(int)", i);
		at = stage_node(&stage, at, name, NULL);
		snprintf(name, sizeof(name), "side_%d", i);
		stage_alloc(&stage, 0, 1000, stage_node(&stage, at, name, NULL));
	}
	stage_alloc(&stage, 0, 1000, at);
	begin_page(false);
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	const char *got = body();
	ck_assert_ptr_nonnull(strstr(got, "side_59"));
	ck_assert_ptr_nonnull(strstr(got, "name_59"));
	end_page();
}

HT_TEST(direct_recursion_is_one_line)
{
	uint32_t at = 0;
	stage_begin(&stage);
	for (int i = 0; i < 60; i++)
		at = stage_node(&stage, at, "walk", NULL);
	stage_alloc(&stage, 0, 10, at);
	begin_page(false);
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	ck_assert_ptr_nonnull(strstr(body(), "           10 B  60 x walk  x\n"));
	end_page();
}

HT_TEST(chains_that_are_too_long_are_cut_and_counted)
{
	uint32_t at = 0;
	stage_begin(&stage);
	for (unsigned i = 0; i <= CALLS_DEPTH_MAX; i++)
		at = stage_node(&stage, at, i % 2 ? "odd" : "even", NULL);
	stage_alloc(&stage, 0, 10, at);
	begin_page(true);
	const struct calls_text all = page();
	ck_assert_int_eq(calls.total[0].value, 10);
	ck_no_err(tree_text_write(&all));
	body();
	ck_assert_ptr_nonnull(
		strstr(printed, "\n1 chains lack their outermost callers: too many frames\n"));
	end_page();
}

HT_TEST(a_graph_of_text_has_shares_as_widths)
{
	make_branches();
	begin_page(false);
	struct flame flame;
	const struct calls_text all = page();
	ck_no_err(flame_init(&flame, &calls, 0, 0));
	flame_text_write(&all, &flame);
	const char *got = body();
	ck_assert_ptr_nonnull(strstr(got, "\xe2\x94\x82"
					  "all "));
	ck_assert_ptr_nonnull(strstr(got, "\xe2\x94\x82"
					  "big                                                    "
					  "\xe2\x94\x82small                "));
	flame_deinit(&flame);
	end_page();
}

HT_TEST(names_steer_no_terminal)
{
	char *name = malloc(1 << 20);
	ck_assert_ptr_nonnull(name);
	memset(name, 'n', 1 << 20);
	name[(1 << 20) - 1] = '\0';
	memcpy(name, "a\x1b[31m\n\xe2\x80\xae\xff", 10);
	stage_begin(&stage);
	uint32_t start = stage_node(&stage, 0, "x\x1b]0;title\x07\r\n", NULL);
	stage_alloc(&stage, 0, 100, stage_node(&stage, start, name, NULL));
	stage_alloc(&stage, 0, 50, stage_node(&stage, start, "\xe2\x80\xae\x9b", NULL));
	begin_page(false);
	struct flame flame;
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	ck_no_err(flame_init(&flame, &calls, 0, 0));
	flame_text_write(&all, &flame);
	struct function_matches matches;
	ck_no_err(function_find(&calls, "a", &matches));
	callers_text_write_matches(&all, &matches);
	function_matches_deinit(&matches);
	body();
	for (const char *at = printed; *at; at++)
		ck_assert_msg(*at == '\n' || (unsigned char)*at >= ' ', "%d", *at);
	ck_assert_ptr_null(strstr(printed, "\xe2\x80\xae"));
	flame_deinit(&flame);
	free(name);
	end_page();
}

HT_TEST(nothing_says_what_to_try)
{
	stage_begin(&stage);
	begin_page(false);
	const struct calls_text all = page();
	ck_no_err(tree_text_write(&all));
	ck_assert_str_eq(body(), "nothing: another --metric or fewer filters may show more\n");
	end_page();
}

/* Blocks of 4095 bytes in a sample of one in 4096 (test_compare.c): each counts for 6478 bytes; the
 * bound of one is 10,146, of two 12,738, of three 14,885. */
static void make_samples(void)
{
	stage_begin_sample(&stage, 4096);
	uint32_t start = stage_node(&stage, 0, "main", NULL);
	const uint64_t pc = STAGE_LO + 0x9000;
	for (unsigned i = 0; i < 3; i++) {
		const uint32_t caller = stage_node(&stage, start, i ? "two" : "one", NULL);
		stage_name(&stage, 1, pc + 0x100 * i, "leaf", NULL, "leaf.c", 10 + i / 2);
		stage_alloc(&stage, 0, 4095,
			tracebuild_node(&stage.scene.trace, caller, pc + 0x100 * i));
	}
	stage_alloc(&stage, 0, 4095, stage_node(&stage, start, "leaves", NULL));
	begin_page(false);
}

HT_TEST(callers_and_lines_of_a_sample_have_bounds)
{
	struct function_matches matches;
	struct function function;
	make_samples();
	const struct calls_text all = page();
	ck_no_err(function_find(&calls, "leaf", &matches));
	ck_no_err(function_init(&function, &calls, &matches));
	callers_text_write(&all, &matches, &function);
	const char *got = body();
	ck_assert_str_eq(got, "leaf  leaf.c\n"
			      "  with callees  19.0 KiB (75.0 %) \xc2\xb1"
			      "77 %\n"
			      "  own           19.0 KiB (75.0 %) \xc2\xb1"
			      "77 %\n"
			      "\n"
			      "Callers\n"
			      "    12.7 KiB  66.7 %    \xc2\xb1"
			      "98 %  two  x\n"
			      "     6.3 KiB  33.3 %   \xc2\xb1"
			      "157 %  one  x\n"
			      "\n"
			      "Callees\n"
			      "    19.0 KiB 100.0 %    \xc2\xb1"
			      "77 %  (allocated by the function itself)\n"
			      "\n"
			      "Lines\n"
			      "       total   share    bound        own  line\n"
			      "    12.7 KiB  66.7 %    \xc2\xb1"
			      "98 %   12.7 KiB  leaf.c:10\n"
			      "     6.3 KiB  33.3 %   \xc2\xb1"
			      "157 %    6.3 KiB  leaf.c:11\n");
	function_deinit(&function);
	function_matches_deinit(&matches);
	end_page();
}

HT_TEST(functions_of_a_sample_have_bounds)
{
	struct function_matches matches;
	make_samples();
	const struct calls_text all = page();
	ck_no_err(function_find(&calls, "lea", &matches));
	callers_text_write_matches(&all, &matches);
	ck_assert_str_eq(body(), "       total   share    bound        own  function\n"
				 "    19.0 KiB  75.0 %    \xc2\xb1"
				 "77 %   19.0 KiB  leaf\n"
				 "     6.3 KiB  25.0 %   \xc2\xb1"
				 "157 %    6.3 KiB  leaves\n");
	function_matches_deinit(&matches);
	end_page();
}

HT_SUITE("analyzer/calls_text")
