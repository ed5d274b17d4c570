/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that settles: the figures of the window end with it, survivors are the blocks of the
 * window that are not freed afterwards, wherever they moved.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/report_text.h"
#include "analyzer/views/suspects.h"
#include "tests/unit/analyzer/exported.h"

#define S 1000000000ull
#define P 0x5000u
#define Q 0x6000u
#define R 0x7000u

static struct scene scene;
static struct analysis *analysis;
static struct view *view;

static void begin(void)
{
	scene_init(&scene);
}

static void put_settle(void)
{
	scene.now += SCENE_STEP_NS;
	const struct rec rec = {.kind = REC_SETTLE, .settle = {scene.now, scene.now, 300 * S}};
	tracebuild_put(&scene.trace, &rec);
}

static void look(const struct query *query)
{
	analysis = scene_analyze_blocks(&scene, query);
	view = scene_view(analysis, query);
}

static void end(void)
{
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static void check(uint64_t outstanding, uint64_t survivors, uint64_t survivor_bytes)
{
	ck_assert_uint_eq(sums_outstanding_blocks(&view->total), outstanding);
	ck_assert_uint_eq(sums_surviving_blocks(&view->total), survivors);
	ck_assert_uint_eq(sums_surviving_bytes(&view->total), survivor_bytes);
}

HT_TEST(the_window_ends_where_it_settles)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 30, 0);
	put_settle();
	const uint64_t window_ns = scene.now - SCENE_START_NS;
	scene.now += S;
	scene_free(&scene, 1, P, 0);
	look(NULL);
	check(2, 1, 30);
	ck_assert_uint_eq(view->total.frees, 0);
	ck_assert_uint_eq(analysis->model.duration_ns, window_ns);
	ck_assert_uint_eq(view->to_ns, window_ns);
	ck_assert_uint_eq(analysis->model.settle.wanted_ns, 300 * S);
	ck_assert_uint_eq(
		analysis->model.settle.end_ns, analysis->model.end.mono_ns - SCENE_START_NS);
	ck_assert_uint_eq(analysis->cube.peak_bytes, 130);
	ck_assert_int_eq(model_missing_events(&analysis->model), 0);
	end();
}

HT_TEST(without_a_settle_time_survivors_are_what_is_outstanding)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 30, 0);
	scene_free(&scene, 0, P, 0);
	look(NULL);
	check(1, 1, 30);
	end();
}

HT_TEST(what_begins_while_it_settles_is_nothing)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	put_settle();
	scene_malloc(&scene, 0, Q, 30, 0); /* its call had begun when the window ended */
	scene_free(&scene, 0, Q, 0);
	scene_free(&scene, 0, R, 24); /* of a block that is in no event */
	scene_realloc_begin(&scene, 0, R, 24);
	scene_realloc_end(&scene, 0, Q, 70, 0);
	scene_free(&scene, 0, Q, 0);
	look(NULL);
	check(1, 1, 100);
	ck_assert_uint_eq(view->total.allocations, 1);
	ck_assert_uint_eq(analysis->cube.before_frees, 0);
	end();
}

HT_TEST(a_block_that_moves_while_it_settles_stays_what_it_was)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 30, 0);
	scene_realloc_begin(&scene, 1, Q, 0); /* begins in the window, and ends after it */
	put_settle();
	scene_realloc_end(&scene, 1, R, 5000, 0);
	scene_realloc_begin(&scene, 0, P, 0);
	scene_realloc_end(&scene, 0, P, 6000, 0);
	scene_realloc_begin(&scene, 0, P, 0);
	scene_realloc_done(&scene, 0, ABI_EVENT_REALLOC_FAIL);
	look(NULL);
	check(2, 2, 130);
	end();
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, R, 30, 0);
	put_settle();
	scene_realloc_begin(&scene, 0, P, 0);
	scene_realloc_end(&scene, 0, Q, 6000, 0);
	scene_free(&scene, 1, Q, 0);
	scene_realloc_begin(&scene, 0, R, 0);
	scene_realloc_done(&scene, 0, ABI_EVENT_REALLOC_FREED);
	look(NULL);
	check(2, 0, 0);
	end();
}

/* Compares with a list thousands of blocks that are freed or moved in the window, after it, or
 * never. */
HT_TEST(survivors_are_those_of_the_ledger)
{
	enum { BLOCKS = 4000 };
	static struct {
		uint64_t addr, size;
		bool is_live;
	} block[BLOCKS];
	uint64_t outstanding = 0, survivors = 0, survivor_bytes = 0, next = 0x100000;
	begin();
	srandom(34);
	for (unsigned i = 0; i < BLOCKS; i++) {
		block[i].addr = next += 0x1000;
		block[i].size = 1 + (uint64_t)random() % 3000;
		block[i].is_live = true;
		scene_malloc(&scene, i % 4, block[i].addr, block[i].size, 0);
		scene.now += (uint64_t)random() % 100000000 * 1008;
		const unsigned other = (unsigned)random() % BLOCKS;
		if (block[other].is_live && random() % 3 == 0) {
			scene_free(&scene, i % 4, block[other].addr, 0);
			block[other].is_live = false;
		}
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		outstanding += block[i].is_live;
	put_settle();
	for (unsigned i = 0; i < BLOCKS; i++) {
		const unsigned lane = (unsigned)random() % SCENE_LANES;
		if (!block[i].is_live || random() % 3 == 0)
			continue;
		if (random() % 2) {
			scene_realloc_begin(&scene, lane, block[i].addr, 0);
			block[i].addr = next += 0x1000;
			scene_realloc_end(&scene, lane, block[i].addr, 7, 0);
		}
		if (random() % 2) {
			scene_free(&scene, lane, block[i].addr, 0);
			block[i].is_live = false;
		}
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		survivors += block[i].is_live;
		survivor_bytes += block[i].is_live ? block[i].size : 0;
	}
	look(NULL);
	check(outstanding, survivors, survivor_bytes);
	ck_assert_uint_eq(view->total.frees, BLOCKS - outstanding);
	end();
}

/* The query chooses the first second: blocks that are freed later in the trace are no survivors. */
HT_TEST(a_part_of_the_window_has_survivors)
{
	struct query query;
	query_init(&query);
	query.to = "1s";
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 30, 0);
	scene_malloc(&scene, 0, R, 7, 0);
	scene.now += 3 * S;
	scene_free(&scene, 0, P, 0);
	scene_malloc(&scene, 0, P, 1000, 0);
	put_settle();
	scene_free(&scene, 0, R, 0);
	look(&query);
	check(3, 1, 30);
	ck_assert(!view_is_settled(view));
	end();
}

HT_TEST(blocks_of_an_age_live_through_the_settle_time)
{
	struct query query;
	query_init(&query);
	query.min_age_ns = 2 * S;
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_malloc(&scene, 0, Q, 30, 0);
	scene_malloc(&scene, 0, R, 7, 0);
	put_settle();
	scene_free(&scene, 0, P, 0); /* too young */
	scene.now += 3 * S;
	scene_free(&scene, 0, R, 0);
	look(&query);
	check(2, 1, 30);
	end();
}

/* No SYNC stands behind the last events of a file that was cut. */
HT_TEST(a_cut_trace_settles_too)
{
	begin();
	scene_malloc(&scene, 0, P, 100, 0);
	scene_sync(&scene);
	put_settle();
	scene_free(&scene, 0, P, 0);
	scene_flush(&scene, 0);
	int fd = tracebuild_finish(&scene.trace);
	ck_no_err(analysis_create(fd, "cut", NULL, &analysis));
	view = scene_view(analysis, NULL);
	check(1, 0, 0);
	end();
}

/* --- what a report makes of it --------------------------------------------------------------- */

/*
 * Makes a window of ten seconds and a settle time of five. "request" frees each block after five
 * seconds, "leak" keeps one of two blocks, "late" allocates two blocks shortly before the end and
 * keeps them.
 */
static void make_window(void)
{
	static const char *const name[] = {"request", "leak", "late"};
	uint32_t node[HT_ARRAY_SIZE(name)];
	begin();
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		node[i] = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name[i], "x.c", i + 1);
	}
	for (uint64_t i = 0; i < 300; i++) {
		if (i == 200)
			put_settle();
		if (i < 200) {
			scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, 4000, node[0]);
			scene_malloc(&scene, 0, 0x20000000 + 0x1000 * i, 100, node[1]);
		}
		if (i == 194 || i == 199)
			scene_malloc(&scene, 0, 0x30000000 + 0x1000 * i, 50000, node[2]);
		if (i >= 100)
			scene_free(&scene, 0, 0x10000000 + 0x1000 * (i - 100), 0);
		if (i < 200 && i % 2)
			scene_free(&scene, 0, 0x20000000 + 0x1000 * i, 0);
		scene.now += S / 20;
	}
	look(NULL);
}

static const struct suspect *suspect_of(const struct suspects *suspects, const char *name)
{
	for (size_t i = 0; i < suspects->count; i++) {
		const uint32_t frame =
			suspects_leaf_frame(view, &view->row[suspects->entry[i].row]);
		if (strcmp(view->frames.frame[frame].function, name) == 0)
			return &suspects->entry[i].suspect;
	}
	return NULL;
}

HT_TEST(survivors_are_a_class_and_freed_sites_are_no_suspects)
{
	struct suspects suspects;
	make_window();
	check(100 + 100 + 2, 100 + 2, 100 * 100 + 2 * 50000);
	ck_no_err(suspects_find(view, &suspects));
	ck_assert_ptr_null(suspect_of(&suspects, "request"));
	ck_assert_int_eq(suspect_of(&suspects, "leak")->class, SUSPECT_GROWING);
	ck_assert_double_eq_tol(suspect_of(&suspects, "leak")->slope_bytes_per_s, 100.0 * 10, 60);
	const struct suspect *late = suspect_of(&suspects, "late");
	ck_assert_int_eq(late->class, SUSPECT_SURVIVOR);
	ck_assert_str_eq(late->text, "Held 5.0 s after the window: 2 of 2 blocks.");
	ck_assert_uint_ge(late->oldest_ns, 5 * S);
	suspects_deinit(&suspects);
	end();
}

HT_TEST(the_first_screen_says_what_was_held)
{
	const struct page_options options = {.path = "x.htap", .is_utc = true};
	const struct text text_options = {.columns = 80};
	char *page = NULL;
	size_t length = 0;
	make_window();
	struct text text = text_options;
	text.out = open_memstream(&page, &length);
	ck_no_err(report_text_write(&text, view, &options));
	fclose(text.out);
	ck_assert_msg(strstr(page, "\nheld   5.0 s after the window: 107.4 KiB in 102 blocks, of "
				   "498.0 KiB outstanding\n"),
		"%s", page);
	ck_assert_msg(strstr(page, "survivor\n"), "%s", page);
	ck_assert_msg(strstr(page, "\nSurvivors: "), "%s", page);
	free(page);
	end();
}

HT_TEST(pauses_and_the_settle_time_are_comments)
{
	struct exported exported = {0};
	scene_init(&exported.scene);
	scene_malloc(&exported.scene, 0, 0x1000, 100, 0);
	uint64_t now = exported.scene.now;
	tracebuild_put(&exported.scene.trace,
		&(struct rec){.kind = REC_PAUSE, .pause = {now + 1000000, 1}});
	tracebuild_put(&exported.scene.trace,
		&(struct rec){.kind = REC_PAUSE, .pause = {now + 3000000, 0}});
	now = exported.scene.now = now + 4000000;
	tracebuild_put(
		&exported.scene.trace, &(struct rec){.kind = REC_SETTLE, .settle = {now, now, 1}});
	exported.scene.now += 5000000;
	scene_free(&exported.scene, 0, 0x1000, 0);
	exported_as(&exported, "heaptrack", NULL);
	exported_has(&exported,
		"\n# paused from +0.001 s to +0.003 s: new allocations were not recorded\n"
		"# settled for 0.005 s after the window: its frees are not in this file\n");
	ck_assert_ptr_null(strstr(exported.text, "\n- "));
	exported_end(&exported);
}

HT_SUITE("analyzer/settle")
