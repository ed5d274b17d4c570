/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree: sums of random trees against a naive recomputation, from both ends, and a function
 * with its callers and callees.
 */
#include "analyzer/views/flame.h"
#include "analyzer/views/function.h"

#include <stdlib.h>

#include "tests/support/random.h"
#include "tests/unit/analyzer/stage.h"

#define STACKS 120u

static struct stage stage;
static struct analysis *analysis;
static struct view *view;
static struct calls calls;

/* --- random trees ------------------------------------------------------------------------------
 */

/* Few names on many nodes: chains meet a function again and again. */
static void make_random(uint64_t seed)
{
	static const char *const name[] = {
		"a()", "b()", "c()", "d()", "operator new(unsigned long)", "clone3", NULL};
	uint32_t stack[STACKS] = {0};
	uint64_t live[STACKS];
	size_t live_count = 0;
	stage_begin(&stage);
	for (uint32_t i = 1; i < STACKS; i++) {
		const char *inner = name[random_below(&seed, HT_ARRAY_SIZE(name))];
		const char *outer = inner && random_below(&seed, 4) == 0 ? "inlined()" : NULL;
		stack[i] = stage_node(&stage, stack[random_below(&seed, i)], inner, outer);
	}
	for (size_t i = 0; i < 600; i++) {
		const uint32_t at = stack[random_below(&seed, STACKS)];
		const uint64_t size = 1 + random_below(&seed, 5000);
		const unsigned lane = (unsigned)random_below(&seed, 3);
		const uint64_t addr = stage_alloc(&stage, lane, size, at);
		if (live_count < STACKS && random_below(&seed, 2))
			live[live_count++] = addr;
		else if (live_count && random_below(&seed, 2))
			stage_free(&stage, live[--live_count]);
	}
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
}

static void end(void)
{
	calls_deinit(&calls);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static void build(enum grouping grouping, enum metric metric, bool is_bottom_up)
{
	const struct calls_options options = {.grouping = grouping,
		.is_bottom_up = is_bottom_up,
		.metric = metric,
		.sort = metric};
	calls_deinit(&calls);
	ck_no_err(calls_init(&calls, view, &options));
}

static int64_t sum_of(const struct figure *figure, size_t count)
{
	int64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += figure[i].value;
	return sum;
}

/* Checks own and inclusive values of a group against sums over all chains. */
static void check_group(uint32_t group, int64_t own, int64_t inclusive)
{
	int64_t naive_own = 0, naive_inclusive = 0;
	for (uint32_t i = 1; i < calls.tree.count; i++) {
		bool is_in = false;
		for (uint32_t at = i; at; at = calls.tree.node[at].parent)
			is_in |= calls.tree.node[at].group == group;
		naive_inclusive += is_in ? calls.own[i].value : 0;
		naive_own += calls.tree.node[i].group == group ? calls.own[i].value : 0;
	}
	ck_assert_int_eq(own, naive_own);
	ck_assert_int_eq(inclusive, naive_inclusive);
}

/* In a bottom-up tree the root's children are the groups that have own values. */
static void check_bottom_up(const struct calls_sum *sum, enum grouping grouping, enum metric metric)
{
	int64_t no_stack = calls.own[0].value, found = 0, whole = calls.total[0].value;
	build(grouping, metric, true);
	ck_assert_int_eq(calls.own[0].value, no_stack);
	ck_assert_int_eq(calls.total[0].value, whole);
	ck_assert_int_eq(sum_of(calls.own, calls.tree.count), whole);
	for (uint32_t i = 1; i < calls.tree.count; i++) {
		if (calls.tree.node[i].parent)
			continue;
		ck_assert_int_eq(calls.total[i].value, sum[calls.tree.node[i].group].own.value);
		found += calls.total[i].value;
	}
	ck_assert_int_eq(found + no_stack, whole);
	ck_assert_uint_eq(calls.cut, 0);
}

static void check_children(void)
{
	for (uint32_t i = 0; i < calls.tree.count; i++) {
		const struct calls_children *children = &calls.children[i];
		int64_t sum = calls.own[i].value, before = INT64_MAX;
		for (uint32_t k = 0; k < children->count; k++) {
			const uint32_t child = calls.child[children->first + k];
			ck_assert_uint_eq(calls.tree.node[child].parent, i);
			ck_assert_int_le(calls.total[child].value, before);
			before = calls.total[child].value;
			sum += before;
		}
		ck_assert_int_eq(sum, calls.total[i].value);
	}
}

static void check_tree(enum grouping grouping, enum metric metric)
{
	struct calls_sum *sum;
	build(grouping, metric, false);
	ck_assert_int_eq(calls.total[0].value, metric_value(&view->total, metric));
	ck_assert_int_eq(sum_of(calls.own, calls.tree.count), calls.total[0].value);
	check_children();
	ck_no_err(calls_group_sums(&calls, &sum));
	for (uint32_t i = 0; i < calls.groups.count; i++)
		check_group(i, sum[i].own.value, sum[i].inclusive.value);
	check_bottom_up(sum, grouping, metric);
	check_children();
	free(sum);
}

HT_TEST(sums_hold_from_both_ends)
{
	static const enum metric metric[] = {
		METRIC_OUTSTANDING, METRIC_GROWTH, METRIC_ALLOCATED, METRIC_CALLS, METRIC_PEAK};
	for (uint64_t seed = 1; seed <= 8; seed++) {
		make_random(seed);
		for (enum grouping grouping = 0; grouping < GROUPING_COUNT; grouping++)
			for (size_t i = 0; i < HT_ARRAY_SIZE(metric); i++)
				check_tree(grouping, metric[i]);
		end();
	}
}

static int64_t entries_sum(const struct function_entry *entry, size_t count)
{
	int64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += entry[i].figure.value;
	return sum;
}

HT_TEST(callers_and_callees_are_parts_of_a_function)
{
	static const char *const name[] = {"a()", "b()", "inlined()"};
	for (uint64_t seed = 1; seed <= 8; seed++) {
		make_random(seed);
		build(GROUPING_FUNCTION, METRIC_CALLS, false);
		for (size_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
			struct function_matches matches;
			struct function callers;
			ck_no_err(function_find(&calls, name[i], &matches));
			ck_assert(matches.is_one && matches.count == 1);
			ck_no_err(function_init(&callers, &calls, &matches));
			const struct calls_sum *sum = &callers.sum;
			ck_assert_int_eq(
				sum->inclusive.value, matches.match[0].sum.inclusive.value);
			ck_assert_int_eq(sum->own.value, matches.match[0].sum.own.value);
			ck_assert_int_eq(callers.outermost.value +
						 entries_sum(callers.caller, callers.caller_count),
				sum->inclusive.value);
			ck_assert_int_eq(
				sum->own.value + entries_sum(callers.callee, callers.callee_count),
				sum->inclusive.value);
			function_deinit(&callers);
			function_matches_deinit(&matches);
		}
		end();
	}
}

HT_TEST(boxes_of_a_flame_graph_lie_within_their_callers)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct flame flame;
		make_random(seed);
		build(GROUPING_FUNCTION, METRIC_ALLOCATED, false);
		ck_no_err(flame_init(&flame, &calls, 0, 0));
		ck_assert_uint_eq(flame.total, (uint64_t)calls.total[0].value);
		const struct flame_box *path[STACKS * 2] = {&flame.box[0]};
		for (size_t i = 1; i < flame.count; i++) {
			const struct flame_box *box = &flame.box[i], *caller = path[box->depth - 1];
			ck_assert_uint_eq(calls.tree.node[box->node].parent, caller->node);
			ck_assert_uint_eq(box->value, (uint64_t)calls.total[box->node].value);
			ck_assert_uint_ge(box->start, caller->start);
			ck_assert_uint_le(box->start + box->value, caller->start + caller->value);
			if (flame.box[i - 1].depth >= box->depth)
				ck_assert_uint_ge(box->start,
					path[box->depth]->start + path[box->depth]->value);
			path[box->depth] = box;
		}
		ck_assert_uint_eq(flame.left_out, 0);
		flame_deinit(&flame);
		end();
	}
}

/* --- by hand -----------------------------------------------------------------------------------
 */

static void begin_recursion(void)
{
	stage_begin(&stage);
	uint32_t start = stage_node(&stage, 0, "main", NULL);
	uint32_t first = stage_node(&stage, start, "walk(int)", NULL);
	uint32_t between = stage_node(&stage, first, "visit", NULL);
	uint32_t second = stage_node(&stage, between, "walk(int)", NULL);
	uint32_t leaf = stage_node(&stage, second, "make", NULL);
	uint32_t other = stage_node(&stage, start, "walker", NULL);
	stage_alloc(&stage, 0, 100, leaf);
	stage_alloc(&stage, 0, 10, second);
	stage_alloc(&stage, 0, 1, first);
	stage_alloc(&stage, 0, 1000, other);
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	build(GROUPING_FUNCTION, METRIC_OUTSTANDING, false);
}

static const char *function_of(uint32_t group)
{
	return view->frames.frame[calls.groups.group[group].frame].function;
}

HT_TEST(recursion_counts_once)
{
	struct function_matches matches;
	struct function callers;
	begin_recursion();
	ck_no_err(function_find(&calls, "walk", &matches));
	ck_assert(matches.is_one);
	ck_no_err(function_init(&callers, &calls, &matches));
	ck_assert_int_eq(callers.sum.inclusive.value, 111);
	ck_assert_int_eq(callers.sum.own.value, 11);
	ck_assert_int_eq(callers.recursive.value, 110);
	ck_assert_int_eq(callers.outermost.value, 0);
	ck_assert_uint_eq(callers.caller_count, 1);
	ck_assert_str_eq(function_of(callers.caller[0].group), "main");
	ck_assert_int_eq(callers.caller[0].figure.value, 111);
	ck_assert_uint_eq(callers.callee_count, 1);
	ck_assert_str_eq(function_of(callers.callee[0].group), "make");
	ck_assert_int_eq(callers.callee[0].figure.value, 100);
	function_deinit(&callers);
	function_matches_deinit(&matches);
	end();
}

HT_TEST(a_part_of_a_name_fits_several)
{
	struct function_matches matches;
	begin_recursion();
	ck_no_err(function_find(&calls, "wal", &matches));
	ck_assert(!matches.is_one);
	ck_assert_uint_eq(matches.count, 2);
	ck_assert_str_eq(matches.match[0].function, "walker");
	function_matches_deinit(&matches);
	ck_no_err(function_find(&calls, "walk(int)", &matches));
	ck_assert(matches.is_one);
	function_matches_deinit(&matches);
	ck_err_says(function_find(&calls, "nothing of it", &matches), HT_ERR_USAGE,
		"no function's name in the trace contains \"nothing of it\"");
	end();
}

HT_TEST(what_a_function_passes_on_is_named_with_the_way_to_see_it)
{
	struct function_matches matches;
	stage_begin(&stage);
	uint32_t user = stage_node(&stage, 0, "user", NULL);
	stage_alloc(&stage, 0, 1, stage_node(&stage, user, "operator new(unsigned long)", NULL));
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	build(GROUPING_FUNCTION, METRIC_OUTSTANDING, false);
	ck_err_says(
		function_find(&calls, "operator new", &matches), HT_ERR_USAGE, "--show-wrappers");
	end();
}

HT_TEST(a_module_is_one_node_whatever_passes_on_in_it)
{
	stage_begin(&stage);
	uint32_t start = stage_node(&stage, 0, "clone3", NULL);
	uint32_t one = stage_node(&stage, start, "one", NULL);
	uint32_t two = stage_node(&stage, one, "two", NULL);
	stage_alloc(&stage, 0, 7, stage_node(&stage, two, "operator new(unsigned long)", NULL));
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	build(GROUPING_MODULE, METRIC_OUTSTANDING, false);
	ck_assert_uint_eq(calls.tree.count, 2);
	ck_assert_int_eq(calls.own[1].value, 7);
	ck_assert_str_eq(calls.groups.group[calls.tree.node[1].group].name, "x");
	end();
}

HT_TEST(a_file_that_is_mapped_twice_has_each_function_once)
{
	const uint64_t again = STAGE_LO + 0x200000;
	stage_begin(&stage);
	tracebuild_module(&stage.scene.trace, 2, STAGE_MODULE, "12345678901234567890", again,
		again + 0x100000);
	uint32_t one = stage_node(&stage, 0, "builtin", NULL);
	tracebuild_symbol(&stage.scene.trace, 2, 0xfff, "builtin", NULL, 0);
	uint32_t two = tracebuild_node(&stage.scene.trace, 0, again + 0x1000);
	stage_alloc(&stage, 0, 3, one);
	stage_alloc(&stage, 0, 4, two);
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	build(GROUPING_FUNCTION, METRIC_OUTSTANDING, false);
	ck_assert_uint_eq(calls.tree.count, 2);
	ck_assert_str_eq(function_of(calls.tree.node[1].group), "builtin");
	ck_assert_int_eq(calls.own[1].value, 7);
	ck_assert_uint_eq(view->row_count, 1);
	end();
}

HT_TEST(means_and_samples_are_refused)
{
	begin_recursion();
	ck_err_says(calls_check(view, METRIC_LIFETIME, METRIC_CALLS), HT_ERR_USAGE,
		"--metric lifetime is a mean");
	ck_err_says(calls_check(view, METRIC_CALLS, METRIC_LIFETIME), HT_ERR_USAGE,
		"--sort lifetime is a mean");
	ck_no_err(calls_check(view, METRIC_TEMPORARY, METRIC_TEMPORARY));
	analysis->cube.sample_bytes = 1024;
	ck_err_says(calls_check(view, METRIC_TEMPORARY, METRIC_CALLS), HT_ERR_USAGE, "is a sample");
	end();
}

HT_TEST(another_metric_decides_the_order)
{
	stage_begin(&stage);
	uint32_t few = stage_node(&stage, 0, "few", NULL);
	uint32_t many = stage_node(&stage, 0, "many", NULL);
	stage_alloc(&stage, 0, 1000, few);
	for (int i = 0; i < 3; i++)
		stage_alloc(&stage, 0, 10, many);
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
	const struct calls_options options = {
		.grouping = GROUPING_FUNCTION, .metric = METRIC_ALLOCATED, .sort = METRIC_CALLS};
	ck_no_err(calls_init(&calls, view, &options));
	ck_assert_uint_eq(calls.children[0].count, 2);
	ck_assert_str_eq(calls_frame(&calls, calls.child[0])->function, "many");
	ck_assert_int_eq(calls.total[calls.child[0]].value, 30);
	end();
}

HT_SUITE("analyzer/calls")
