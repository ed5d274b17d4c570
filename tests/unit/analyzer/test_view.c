/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a query: filters, windows, blocks live at a moment. For each query the rows sum up
 * to the total.
 */
#include "analyzer/views/view.h"

#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/stage.h"

#define MS 1000000u

static struct stage stage;
static struct analysis *analysis;
static struct query query;

/* Blocks of 1, 2, 4, ... bytes, so that a sum names them. */
enum { DB = 1, DB_DEEP = 2, NET = 4, MADE = 8, NO_STACK = 16 };

static void begin(void)
{
	stage_begin(&stage);
	tracebuild_thread(&stage.scene.trace, SCENE_TID(0), "worker");
	tracebuild_thread(&stage.scene.trace, SCENE_TID(1), "io");
	uint32_t main_node = stage_node(&stage, 0, "main", NULL);
	uint32_t db = stage_node(&stage, main_node, "app::db::open(int)", NULL);
	uint32_t deep = stage_node(&stage, db, "lib::read", "lib::cache");
	uint32_t net = stage_node(&stage, main_node, "app::net::send", NULL);
	uint32_t made = stage_made(&stage, 0, "turn", 3);
	stage_alloc(&stage, 0, DB, db);
	stage_alloc(&stage, 1, DB_DEEP, deep);
	stage_alloc(&stage, 0, NET, net);
	stage_alloc(&stage, 1, MADE, made);
	stage_alloc(&stage, 2, NO_STACK, 0);
	query_init(&query);
}

static void end(void)
{
	analysis_destroy(analysis);
	analysis = NULL;
	scene_deinit(&stage.scene);
}

static struct view *answer(void)
{
	if (!analysis)
		analysis = scene_analyze(&stage.scene);
	struct view *view = scene_view(analysis, &query);
	struct sums rows = {0}, sites = {0};
	size_t count = 0;
	for (size_t i = 0; i < view->row_count; i++) {
		sums_add(&rows, &view->row[i].sums);
		for (uint32_t k = 0; k < view->row[i].count; k++) {
			const uint32_t site = view->row_site[view->row[i].first + k];
			sums_add(&sites, &view->sums[site]);
			ck_assert_uint_eq(view->row_of_site[site], i);
			count++;
		}
	}
	made_check_sums(&rows, &view->total);
	made_check_sums(&sites, &view->total);
	for (size_t i = 0; i < analysis->cube.site_count; i++)
		count -= view->row_of_site[i] != UINT32_MAX;
	ck_assert_uint_eq(count, 0);
	return view;
}

static void check_bytes(uint64_t want)
{
	struct view *view = answer();
	ck_assert_uint_eq(view->total.allocated_bytes, want);
	view_destroy(view);
	query_init(&query);
}

static void add(struct query_words *words, const char *word)
{
	ck_no_err(query_add(words, "--option", word));
}

HT_TEST(everything_is_in_without_a_filter)
{
	begin();
	check_bytes(DB | DB_DEEP | NET | MADE | NO_STACK);
	end();
}

HT_TEST(threads_are_chosen_by_name_and_id)
{
	begin();
	add(&query.threads, "worker");
	check_bytes(DB | NET);
	add(&query.threads, "101");
	check_bytes(DB_DEEP | MADE);
	add(&query.threads, "102");
	add(&query.threads, "worker");
	check_bytes(DB | NET | NO_STACK);
	add(&query.threads, "work"); /* only whole names match */
	check_bytes(0);
	end();
}

HT_TEST(stacks_are_chosen_by_module_and_function)
{
	begin();
	add(&query.modules, "bin/x");
	check_bytes(DB | DB_DEEP | NET);
	add(&query.modules, "libnone");
	check_bytes(0);
	add(&query.functions, "db::open");
	check_bytes(DB | DB_DEEP);
	add(&query.functions, "lib::cache"); /* an inlined frame's caller */
	add(&query.functions, "net");
	check_bytes(DB_DEEP | NET);
	add(&query.functions, "turn");
	check_bytes(MADE);
	add(&query.functions, "turn");
	add(&query.modules, "bin/x"); /* both conditions must hold */
	check_bytes(0);
	end();
}

HT_TEST(stacks_are_excluded)
{
	begin();
	add(&query.excluded, "lib::");
	check_bytes(DB | NET | MADE | NO_STACK);
	add(&query.excluded, "bin/x");
	check_bytes(MADE | NO_STACK);
	add(&query.excluded, "net");
	add(&query.functions, "main");
	check_bytes(DB | DB_DEEP);
	end();
}

/* Patterns have LeakSanitizer's syntax. */
HT_TEST(suppressions_are_patterns)
{
	static const struct {
		const char *pattern;
		uint64_t left;
	} cases[] = {
		{"db::open", NET | MADE | NO_STACK},
		{"^app::", MADE | NO_STACK},
		{"^db::", DB | DB_DEEP | NET | MADE | NO_STACK},
		{"^app*send$", DB | DB_DEEP | MADE | NO_STACK},
		{"^app::net$", DB | DB_DEEP | NET | MADE | NO_STACK},
		{"send$", DB | DB_DEEP | MADE | NO_STACK},
		{"app::*::open", NET | MADE | NO_STACK},
		{"^turn$", DB | DB_DEEP | NET | NO_STACK},
		{"a.js", DB | DB_DEEP | NET | NO_STACK}, /* a file */
		{"/usr/bin/x", MADE | NO_STACK},	 /* a module */
		{"^app*net*e*d$", DB | DB_DEEP | MADE | NO_STACK},
		{"app*net$", DB | DB_DEEP | NET | MADE | NO_STACK},
		{"*", NO_STACK},
		{"a[p]p", DB | DB_DEEP | NET | MADE | NO_STACK},
		{"app::??t", DB | DB_DEEP | NET | MADE | NO_STACK},
	};
	begin();
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		add(&query.suppressed, cases[i].pattern);
		struct view *view = answer();
		ck_assert_msg(view->total.allocated_bytes == cases[i].left, "%s leaves %lu",
			cases[i].pattern, view->total.allocated_bytes);
		view_destroy(view);
		query_init(&query);
	}
	end();
}

/* --- windows -----------------------------------------------------------------------------------
 */

/* Makes ten blocks: block i, of 1 << i bytes, is allocated i + 0.5 ms after the start. Blocks 0 and
 * 4 are freed in the last millisecond. */
static void begin_timed(void)
{
	uint64_t addr[10];
	stage_begin(&stage);
	for (unsigned i = 0; i < 10; i++) {
		stage.scene.now = SCENE_START_NS + i * MS + MS / 2;
		addr[i] = stage_alloc(&stage, 0, 1u << i, 0);
	}
	stage_free(&stage, addr[0]);
	stage_free(&stage, addr[4]);
	query_init(&query);
}

HT_TEST(a_window_is_of_whole_buckets)
{
	begin_timed();
	query.from = "+2ms";
	query.to = "+5ms";
	struct view *view = answer();
	ck_assert_uint_eq(view->from_ns, 2 * MS);
	ck_assert_uint_eq(view->to_ns, 5 * MS);
	ck_assert(!view->is_snapped && !view->is_whole);
	ck_assert_uint_eq(view->total.allocated_bytes, 4 + 8 + 16);
	ck_assert_int_eq(view->total.live_bytes, 31);
	ck_assert_uint_eq(view->peak.bytes, 31);
	view_destroy(view);
	query.from = "+2.5ms";
	view = answer();
	ck_assert_uint_eq(view->from_ns, 2 * MS);
	ck_assert(view->is_snapped);
	view_destroy(view);
	query.from = NULL;
	query.to = "+4.1ms";
	view = answer();
	ck_assert_uint_eq(view->to_ns, 5 * MS);
	ck_assert(view->is_snapped);
	ck_assert_uint_eq(view->total.allocated_bytes, 31);
	view_destroy(view);
	query.to = "+1h";
	view = answer();
	ck_assert_uint_eq(view->to_ns, analysis->model.duration_ns);
	ck_assert(view->is_whole && !view->is_snapped);
	view_destroy(view);
	end();
}

HT_TEST(a_window_that_ends_before_it_begins_is_refused)
{
	struct view *view;
	begin_timed();
	analysis = scene_analyze(&stage.scene);
	query.from = "+5ms";
	query.to = "+2ms";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE,
		"--from +5ms is not before --to +2ms");
	query.to = "+5ms";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE, "is not before");
	query.to = "soon";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE, "--to takes");
	query.to = NULL;
	query.from = "+1h";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE,
		"--from +1h is not in the trace");
	query.from = NULL;
	query.to = "0";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE,
		"--to 0 is not after the start");
	end();
}

HT_TEST(blocks_alive_at_a_moment)
{
	struct view *view;
	begin_timed();
	query.alive_at = "+5ms";
	view = answer();
	ck_assert_uint_eq(view->total.allocated_bytes, 63);
	ck_assert_uint_eq(view->total.freed_bytes, 17);
	ck_assert_int_eq(view->total.live_bytes, 46);
	view_destroy(view);
	query.from = "+3ms";
	view = answer();
	ck_assert_uint_eq(view->total.allocated_bytes, 8 + 16 + 32);
	view_destroy(view);
	query.alive_at = "+1ms";
	ck_err_says(view_create(analysis, &query, true, &view), HT_ERR_USAGE,
		"--alive-at +1ms is not in the window");
	end();
}

HT_TEST(a_row_has_its_series)
{
	struct window_series series;
	begin_timed();
	struct view *view = answer();
	ck_assert_uint_eq(view->row_count, 1);
	view_series(view, &view->row[0], &series);
	ck_assert_uint_eq(series.count, 10);
	ck_assert_int_eq(series.live_bytes[4], 31);
	ck_assert_int_eq(series.live_bytes[9], 1023 - 17);
	ck_assert_uint_eq(series.surviving_bytes[4], 0);
	view_destroy(view);
	end();
}

HT_SUITE("analyzer/view")
