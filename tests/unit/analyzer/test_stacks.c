/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as they were recorded: one entry each, in the order of a metric, with what a view passes
 * over.
 */
#include "analyzer/views/stacks.h"

#include <stdlib.h>

#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/stage.h"

static struct stage stage;
static struct analysis *analysis;
static struct view *view;
static struct stack *stack;
static size_t count;

static void finish(enum metric metric, bool shows_wrappers)
{
	analysis = scene_analyze(&stage.scene);
	view = scene_view_of_all(analysis, shows_wrappers);
	ck_no_err(stacks_find(view, metric, &stack, &count));
}

static void end(void)
{
	free(stack);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

HT_TEST(order_is_by_metric_then_by_allocated_bytes)
{
	stage_begin(&stage);
	uint32_t small = stage_node(&stage, 0, "small", NULL);
	uint32_t churn = stage_node(&stage, 0, "churn", NULL);
	uint32_t big = stage_node(&stage, 0, "big", NULL);
	stage_free(&stage, stage_alloc(&stage, 0, 10, small));
	stage_free(&stage, stage_alloc(&stage, 0, 500, churn));
	stage_alloc(&stage, 0, 20, big);
	finish(METRIC_OUTSTANDING, false);
	ck_assert_uint_eq(count, 3);
	ck_assert_uint_eq(stack[0].node, big);
	ck_assert_uint_eq(stack[1].node, churn);
	ck_assert_uint_eq(stack[2].node, small);
	uint32_t *order;
	ck_no_err(view_order(view, METRIC_OUTSTANDING, &order));
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(view->row[order[i]].node,
			tree_leaf(&view->tree, &analysis->model.nodes, stack[i].node));
	free(order);
	end();
}

/* Sites differ by thread, function and size, too; stacks do not. */
HT_TEST(a_stack_is_one_entry)
{
	stage_begin(&stage);
	uint32_t node = stage_node(&stage, 0, "f", NULL);
	stage_alloc(&stage, 0, 10, node);
	stage_alloc(&stage, 1, 1000, node);
	scene_alloc(&stage.scene, 2, ABI_HOOK_CALLOC, 0x2000, 20, node);
	stage_alloc(&stage, 0, 5, 0);
	finish(METRIC_ALLOCATED, false);
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(stack[0].node, node);
	ck_assert_uint_eq(stack[0].sums.allocations, 3);
	ck_assert_uint_eq(stack[0].sums.allocated_bytes, 1030);
	ck_assert_uint_eq(stack[0].calls[ABI_HOOK_MALLOC], 2);
	ck_assert_uint_eq(stack[0].calls[ABI_HOOK_CALLOC], 1);
	ck_assert_uint_eq(stack[1].node, 0);
	ck_assert_uint_eq(stacks_site(view, &stack[1]), 0);
	ck_assert_uint_eq(stacks_wrappers(view, &stack[1]), 0);
	end();
}

static const struct stack *find(uint32_t node)
{
	for (size_t i = 0; i < count; i++)
		if (stack[i].node == node)
			return &stack[i];
	ck_abort_msg("no stack %u", node);
}

HT_TEST(wrappers_are_counted_up_to_the_site)
{
	for (unsigned shows_wrappers = 0; shows_wrappers < 2; shows_wrappers++) {
		stage_begin(&stage);
		uint32_t started = stage_node(&stage, 0, "start_thread", NULL);
		uint32_t user = stage_node(&stage, started, "std::f()", "user()");
		uint32_t called = stage_node(&stage, user, "std::__invoke(int)", NULL);
		uint32_t leaf =
			stage_node(&stage, called, "operator new(unsigned long)", "std::g()");
		uint32_t alone = stage_node(&stage, started, "operator new(unsigned long)", NULL);
		stage_alloc(&stage, 0, 1, user);
		stage_alloc(&stage, 0, 1, leaf);
		stage_alloc(&stage, 0, 1, alone);
		finish(METRIC_CALLS, shows_wrappers);
		ck_assert_uint_eq(stacks_wrappers(view, find(user)), shows_wrappers ? 0 : 1);
		ck_assert_uint_eq(stacks_wrappers(view, find(leaf)), shows_wrappers ? 0 : 4);
		/* The stack `alone` is shown as it is. */
		ck_assert_uint_eq(stacks_wrappers(view, find(alone)), 0);
		ck_assert((stacks_site(view, find(user)) == stacks_site(view, find(leaf))) ==
			  !shows_wrappers);
		ck_assert_uint_ne(stacks_site(view, find(user)), stacks_site(view, find(alone)));
		end();
	}
}

HT_SUITE("analyzer/stacks")
