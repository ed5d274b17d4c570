/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains as they are shown: what is passed over, what reads the same, and that nothing is lost by
 * it.
 */
#include "analyzer/views/tree.h"

#include <stdlib.h>

#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/stage.h"

static struct stage stage;
static struct analysis *analysis;
static struct view *view;

static void finish(bool shows_wrappers)
{
	analysis = scene_analyze(&stage.scene);
	view = scene_view_of_all(analysis, shows_wrappers);
}

static void end(void)
{
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static uint32_t node(uint32_t parent, const char *inner, const char *outer)
{
	return stage_node(&stage, parent, inner, outer);
}

static void check(uint32_t stack, const char *want)
{
	ck_assert_str_eq(stage_chain(view, stack), want);
}

static uint32_t leaf_of(uint32_t stack)
{
	return tree_leaf(&view->tree, &analysis->model.nodes, stack);
}

HT_TEST(wrappers_are_passed_over)
{
	stage_begin(&stage);
	uint32_t main_node = node(0, "main", NULL);
	uint32_t user = node(main_node, "alloc::vec::Vec<T>::push", "app::add");
	uint32_t whole = node(user, "alloc::alloc::alloc", "alloc::raw_vec::finish_grow");
	uint32_t leaf = node(whole, "__rust_alloc", NULL);
	uint32_t nameless = node(user, NULL, NULL);
	uint32_t above = node(nameless, "alloc::alloc::alloc", NULL);
	uint32_t between = node(main_node, "app::f", "alloc::vec::Vec<T>::map");
	finish(false);
	check(leaf, "app::add < main");
	check(whole, "app::add < main");
	check(user, "app::add < main");
	check(main_node, "main");
	check(above, "? < alloc::vec::Vec<T>::push < app::add < main");
	check(between, "app::f < alloc::vec::Vec<T>::map < main");
	ck_assert_uint_eq(leaf_of(leaf), leaf_of(user));
	ck_assert_uint_eq(leaf_of(0), 0);
	ck_assert_uint_eq(leaf_of(12345), 0);
	end();
}

HT_TEST(a_chain_of_wrappers_is_its_innermost_frame)
{
	stage_begin(&stage);
	uint32_t outer = node(0, "std::f()", NULL);
	uint32_t leaf = node(outer, "operator new(unsigned long)", NULL);
	uint32_t started = node(node(0, "clone3", NULL), "start_thread", NULL);
	uint32_t alone = node(started, "operator new(unsigned long)", NULL);
	finish(false);
	check(leaf, "operator new(unsigned long)");
	check(outer, "std::f()");
	check(started, "start_thread");
	check(alone, "operator new(unsigned long)");
	end();
}

HT_TEST(everything_is_shown_when_wanted)
{
	stage_begin(&stage);
	uint32_t started = node(0, "start_thread", NULL);
	uint32_t user = node(started, "app::add", NULL);
	uint32_t leaf = node(user, "__rust_alloc", NULL);
	finish(true);
	check(leaf, "__rust_alloc < app::add < start_thread");
	check(user, "app::add < start_thread");
	end();
}

/* libstdc++ exports no name for the function that calls a thread's function. */
HT_TEST(the_nameless_caller_of_a_thread_is_left_out)
{
	stage_begin(&stage);
	tracebuild_module(
		&stage.scene.trace, 2, "/usr/lib/libstdc++.so.6.0.30", NULL, 0x900000, 0xa00000);
	uint32_t started = node(node(0, "clone3", NULL), "start_thread", NULL);
	uint32_t nameless = tracebuild_node(&stage.scene.trace, started, 0x900010);
	uint32_t user = node(nameless, "app::run", NULL);
	uint32_t other = node(node(started, NULL, NULL), "app::run", NULL);
	finish(false);
	check(user, "app::run");
	check(other, "app::run < ?");
	end();
	stage_begin(&stage);
	tracebuild_module(
		&stage.scene.trace, 2, "/usr/lib/libstdc++.so.6.0.30", NULL, 0x900000, 0xa00000);
	user = node(tracebuild_node(&stage.scene.trace, 0, 0x900010), "app::run", NULL);
	finish(true);
	check(user, "app::run < ?");
	end();
}

HT_TEST(plumbing_is_left_out)
{
	static const char *const plumbing[] = {"clone3", "start_thread", "_start",
		"__libc_start_main@@GLIBC_2.34", "__libc_start_main_impl",
		"execute_native_thread_routine",
		"void std::__invoke_impl<void, void (*)()>(std::__invoke_other, void (*&&)())",
		"std::function<void ()>::operator()() const",
		"std::thread::_Invoker<std::tuple<void (*)()>>::operator()()",
		"std::rt::lang_start::{{closure}}", "std::panicking::try",
		"std::sys::backtrace::__rust_begin_short_backtrace",
		"core::ops::function::FnOnce::call_once"};
	stage_begin(&stage);
	uint32_t at = 0, leaf[HT_ARRAY_SIZE(plumbing)];
	for (size_t i = 0; i < HT_ARRAY_SIZE(plumbing); i++)
		at = node(at, plumbing[i], NULL);
	uint32_t work = node(at, "app::work", NULL);
	for (size_t i = 0; i < HT_ARRAY_SIZE(plumbing); i++)
		leaf[i] = node(node(work, plumbing[i], NULL), "app::leaf", NULL);
	uint32_t clones = node(work, "clone3_of_mine", NULL);
	finish(false);
	check(work, "app::work");
	for (size_t i = 0; i < HT_ARRAY_SIZE(plumbing); i++)
		check(leaf[i], "app::leaf < app::work");
	ck_assert_uint_eq(leaf_of(leaf[0]), leaf_of(leaf[1]));
	check(clones, "clone3_of_mine < app::work");
	end();
}

/* A function of generated code is one node, however often it was compiled; so is a line of a
 * module. */
HT_TEST(chains_that_read_the_same_are_one)
{
	stage_begin(&stage);
	uint32_t top = stage_made(&stage, 0, "turn", 3), again = stage_made(&stage, 0, "turn", 3);
	uint32_t other = stage_made(&stage, 0, "turn", 4);
	uint32_t nameless = stage_made(&stage, 0, NULL, 0);
	uint32_t nameless_too = stage_made(&stage, 0, NULL, 0);
	uint32_t leaf = stage_made(&stage, top, "keep", 9);
	uint32_t leaf_too = stage_made(&stage, again, "keep", 9);
	uint32_t leaf_other = stage_made(&stage, other, "keep", 9);
	uint64_t pc = STAGE_LO + 0x5000;
	uint32_t native = tracebuild_node(&stage.scene.trace, leaf, pc);
	uint32_t native_too = tracebuild_node(&stage.scene.trace, leaf_too, pc);
	uint32_t elsewhere = tracebuild_node(&stage.scene.trace, leaf_too, pc + 16);
	uint32_t named = node(0, "f", NULL), named_too = node(0, "f", NULL);
	stage_alloc(&stage, 0, 10, native);
	stage_alloc(&stage, 0, 20, native_too);
	stage_alloc(&stage, 0, 40, elsewhere);
	finish(false);
	ck_assert_uint_eq(leaf_of(again), leaf_of(top));
	ck_assert_uint_ne(leaf_of(other), leaf_of(top));
	ck_assert_uint_eq(leaf_of(leaf_too), leaf_of(leaf));
	ck_assert_uint_ne(leaf_of(leaf_other), leaf_of(leaf));
	ck_assert_uint_eq(leaf_of(native_too), leaf_of(native));
	ck_assert_uint_ne(leaf_of(elsewhere), leaf_of(native));
	ck_assert_uint_ne(leaf_of(nameless), leaf_of(nameless_too));
	ck_assert_uint_eq(leaf_of(named), leaf_of(named_too));
	ck_assert_uint_eq(view->row_count, 2);
	ck_assert_uint_eq(view->row[0].sums.allocated_bytes, 30);
	ck_assert_uint_eq(view->row[0].count, 2);
	end();
}

/* Functions with the same name in different files are different. */
HT_TEST(a_file_tells_functions_apart)
{
	stage_begin(&stage);
	uint32_t leaf[4];
	static const char *const file[] = {"a.c", "b.c", "a.c", NULL};
	for (size_t i = 0; i < HT_ARRAY_SIZE(leaf); i++) {
		const uint64_t pc = STAGE_LO + 0x7000 + 0x10 * i;
		stage_name(&stage, 1, pc, "init", NULL, file[i], 5);
		leaf[i] = tracebuild_node(&stage.scene.trace, 0, pc);
	}
	finish(false);
	ck_assert_uint_ne(leaf_of(leaf[0]), leaf_of(leaf[1]));
	ck_assert_uint_eq(leaf_of(leaf[0]), leaf_of(leaf[2]));
	ck_assert_uint_ne(leaf_of(leaf[0]), leaf_of(leaf[3]));
	end();
}

HT_TEST(stacks_of_one_row_are_summed_up)
{
	stage_begin(&stage);
	uint32_t user = node(0, "alloc::vec::Vec<T>::push", "app::add");
	uint32_t grow = node(user, "alloc::raw_vec::finish_grow", NULL);
	uint32_t make = node(user, "alloc::alloc::exchange_malloc", NULL);
	uint32_t other = node(0, "app::other", NULL);
	stage_alloc(&stage, 0, 100, grow);
	scene_alloc(&stage.scene, 0, ABI_HOOK_CALLOC, 0x2000, 20, make);
	stage_alloc(&stage, 0, 3, user);
	stage_free(&stage, stage_alloc(&stage, 0, 1000, other));
	stage_free(&stage, 0x2000);
	stage_alloc(&stage, 0, 7, 0);
	finish(false);
	ck_assert_uint_eq(view->row_count, 3);
	for (size_t i = 0; i < view->row_count; i++) {
		const struct row *row = &view->row[i];
		if (row->node == leaf_of(user)) {
			ck_assert_uint_eq(row->sums.allocations, 3);
			ck_assert_uint_eq(row->sums.allocated_bytes, 123);
			ck_assert_uint_eq(row->sums.frees, 1);
			ck_assert_uint_eq(row->sums.freed_bytes, 20);
			ck_assert_uint_eq(row->sums.peak_bytes, 123);
		} else if (row->node == leaf_of(other)) {
			ck_assert_uint_eq(row->sums.temporary, 1);
		} else {
			ck_assert_uint_eq(row->node, 0);
			ck_assert_uint_eq(row->sums.allocated_bytes, 7);
		}
	}
	end();
}

static void make_forest(void)
{
	stage_begin(&stage);
	uint32_t leaf[40];
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(leaf); i++) {
		uint32_t parent = i % 5 ? leaf[i / 2] : 0;
		leaf[i] = node(parent, i % 3 ? "std::f()" : "app::f", i % 4 ? "core::g" : NULL);
	}
	for (uint32_t i = 0; i < 400; i++) {
		uint64_t addr = stage_alloc(&stage, i % 3, i + 1, leaf[i % 40]);
		if (i % 7 == 0)
			stage_free(&stage, addr);
	}
}

HT_TEST(rows_and_totals_of_trees_are_the_total)
{
	for (unsigned shows_all = 0; shows_all < 2; shows_all++) {
		make_forest();
		finish(shows_all);
		struct sums rows = {0}, *own;
		for (size_t i = 0; i < view->row_count; i++)
			sums_add(&rows, &view->row[i].sums);
		made_check_sums(&rows, &view->total);
		ck_no_err(view_own_sums(view, &view->tree, &own));
		struct sums *total = calloc(view->tree.count, sizeof(*total));
		tree_totals(&view->tree, own, total);
		made_check_sums(&total[0], &view->total);
		for (uint32_t i = 1; i < view->tree.count; i++) {
			struct sums below = own[i];
			for (uint32_t k = i + 1; k < view->tree.count; k++)
				if (view->tree.node[k].parent == i)
					sums_add(&below, &total[k]);
			made_check_sums(&total[i], &below);
			ck_assert_uint_lt(view->tree.node[i].parent, i);
		}
		free(own);
		free(total);
		end();
	}
}

/* The time is linear: each node is walked once, however many stacks there are. */
HT_TEST(deep_chains_of_wrappers)
{
	stage_begin(&stage);
	uint32_t at = node(0, "app::f", NULL), user = at;
	uint64_t pc = STAGE_LO + 0x10 * ++stage.node_count;
	stage_name(&stage, 1, pc, "core::f", NULL, NULL, 0);
	for (unsigned i = 0; i < 30000; i++) {
		at = tracebuild_node(&stage.scene.trace, at, pc);
		stage_alloc(&stage, 0, 1, at);
	}
	finish(false);
	ck_assert_uint_eq(view->row_count, 1);
	ck_assert_uint_eq(leaf_of(at), leaf_of(user));
	end();
}

/* --- other groupings ---------------------------------------------------------------------------
 */

static size_t count_of(enum grouping grouping)
{
	struct groups groups;
	ck_no_err(groups_init(&groups, grouping, &view->frames, analysis));
	const size_t count = groups.count;
	groups_deinit(&groups);
	return count;
}

HT_TEST(groupings_tell_frames_apart)
{
	stage_begin(&stage);
	static const struct {
		const char *name;
		uint64_t line;
	} frame[] = {{"app::a", 1}, {"app::a", 2}, {"app::b", 1}, {"lib::c", 1}, {"app::a", 1}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(frame); i++) {
		const uint64_t pc = STAGE_LO + 0x7000 + 0x10 * i;
		stage_name(&stage, 1, pc, frame[i].name, NULL, "a.cc", frame[i].line);
		tracebuild_node(&stage.scene.trace, 0, pc);
	}
	finish(false);
	ck_assert_uint_eq(count_of(GROUPING_LINE), 4);
	ck_assert_uint_eq(count_of(GROUPING_FUNCTION), 3);
	ck_assert_uint_eq(count_of(GROUPING_ADDRESS), 5);
	ck_assert_uint_eq(count_of(GROUPING_MODULE), 1);
	ck_assert_uint_eq(count_of(GROUPING_NAMESPACE), 2);
	end();
}

HT_SUITE("analyzer/tree")
