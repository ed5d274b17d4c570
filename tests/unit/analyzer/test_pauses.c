/* SPDX-License-Identifier: Apache-2.0
 *
 * A paused capture: the report names the pause, and no site counts as growing, or as not growing,
 * because of it.
 */
#include "analyzer/views/pauses.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/report_text.h"
#include "analyzer/views/compare.h"
#include "analyzer/views/suspects.h"
#include "tests/unit/analyzer/scene.h"

#define S	1000000000ull
#define STEP_NS (S / 20)
#define MINUTE	(60 * S / STEP_NS)
#define LEAK	100u /* bytes that "leak" keeps in each step */

static struct scene scene;
static struct analysis *analysis;
static struct view *view;
static struct suspects suspects;

static void put_pause(bool paused)
{
	const struct rec rec = {.kind = REC_PAUSE, .pause = {scene.now, paused}};
	tracebuild_put(&scene.trace, &rec);
}

/* Times in seconds after the start. */
struct made {
	double pause_from, pause_to;
	double life; /* of the queue's blocks */
};

/*
 * Makes a minute: "leak" keeps LEAK bytes in each step, "cache" takes 1 MiB in the first second,
 * "queue" frees each block after `life`. Frees are recorded in the pause, allocations of "leak" and
 * "queue" are not.
 */
static void make_minute(struct made made)
{
	static const char *const name[] = {"leak", "cache", "queue"};
	uint32_t node[HT_ARRAY_SIZE(name)];
	uint64_t from = (uint64_t)(made.pause_from * 20), to = (uint64_t)(made.pause_to * 20);
	uint64_t life = (uint64_t)(made.life * 20);
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/x", "12345678901234567890", 0x400000, 0x500000);
	for (uint32_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		node[i] = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name[i], "x.c", i + 1);
	}
	for (uint64_t i = 0; i < MINUTE; i++) {
		bool paused = i >= from && i < to;
		if (i == from || i == to)
			put_pause(paused);
		if (!paused) {
			scene_malloc(&scene, 0, 0x10000000 + 0x1000 * i, LEAK, node[0]);
			scene_malloc(&scene, 0, 0x30000000 + 0x1000 * i, 4000, node[2]);
		}
		if (i < 16)
			scene_malloc(&scene, 0, 0x20000000 + 0x100000 * i, 1 << 16, node[1]);
		/* Also frees blocks that were allocated in the pause, of which the trace knows
		 * nothing. */
		if (i >= life)
			scene_free(&scene, 0, 0x30000000 + 0x1000 * (i - life), 4000);
		scene.now += STEP_NS;
	}
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_no_err(suspects_find(view, &suspects));
}

static void end(void)
{
	suspects_deinit(&suspects);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static const struct suspect *suspect_of(const char *function)
{
	for (size_t i = 0; i < suspects.count; i++) {
		const struct row *row = &view->row[suspects.entry[i].row];
		const uint32_t frame = suspects_leaf_frame(view, row);
		if (strcmp(view->frames.frame[frame].function, function) == 0)
			return &suspects.entry[i].suspect;
	}
	ck_abort_msg("%s is no suspect", function);
}

HT_TEST(pauses_of_a_part)
{
	struct model_pause list[] = {{10, 20}, {30, 35}, {50, 60}};
	const struct model model = {.pause = list, .pause_count = HT_ARRAY_SIZE(list)};
	struct pauses pauses = pauses_within(&model, 0, 100);
	ck_assert_uint_eq(pauses.count, 3);
	ck_assert_uint_eq(pauses.sum_ns, 25);
	ck_assert_uint_eq(pauses.first_begin_ns, 10);
	ck_assert_uint_eq(pauses.first_end_ns, 20);
	pauses = pauses_within(&model, 15, 32);
	ck_assert_uint_eq(pauses.count, 2);
	ck_assert_uint_eq(pauses.sum_ns, 7);
	ck_assert_uint_eq(pauses.first_begin_ns, 15);
	ck_assert_uint_eq(pauses.first_end_ns, 20);
	ck_assert_uint_eq(pauses_within(&model, 20, 30).count, 0);
}

HT_TEST(a_leak_grows_as_if_nothing_had_been)
{
	static const struct made made[] = {{20, 40, 2}, {5, 8, 2}, {1, 30, 2}, {50, 55, 2}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(made); i++) {
		make_minute(made[i]);
		const struct suspect *leak = suspect_of("leak");
		ck_assert_msg(leak->class == SUSPECT_GROWING, "case %zu: %s", i, leak->text);
		ck_assert_double_eq_tol(leak->slope_bytes_per_s, LEAK * 20, 150);
		ck_assert_msg(strstr(leak->text, "Recording was paused for "), "%s", leak->text);
		ck_assert_uint_ge(leak->oldest_ns, 59 * S);
		ck_assert_int_eq(suspect_of("cache")->class, SUSPECT_PLATEAU);
		end();
	}
}

/* In the pause blocks leave the queue and none come; afterwards the queue fills again. */
HT_TEST(a_queue_does_not_grow_because_of_a_pause)
{
	static const double begins[] = {5, 20, 35, 45}, lengths[] = {0.5, 3, 10, 14},
			    lives[] = {0.2, 2, 5, 12};
	for (size_t b = 0; b < HT_ARRAY_SIZE(begins); b++)
		for (size_t k = 0; k < HT_ARRAY_SIZE(lengths); k++)
			for (size_t i = 0; i < HT_ARRAY_SIZE(lives); i++) {
				make_minute(
					(struct made){begins[b], begins[b] + lengths[k], lives[i]});
				enum suspect_class class = suspect_of("queue")->class;
				ck_assert_msg(class != SUSPECT_GROWING && class != SUSPECT_SPIKE &&
						      class != SUSPECT_PERIODIC,
					"%g s long from %g s on, a life of %g s: %s", lengths[k],
					begins[b], lives[i], suspect_of("queue")->text);
				end();
			}
}

/* Figures are per recorded minute: whether half of the time was recorded or all, the program is the
 * same. */
HT_TEST(a_pause_is_no_change)
{
	struct compare compare;
	make_minute((struct made){0, 0, 2});
	struct scene first_scene = scene;
	struct analysis *first_analysis = analysis;
	struct suspects first_suspects = suspects;
	struct view *first = view;
	suspects = (struct suspects){0};
	make_minute((struct made){15, 45, 2});
	const struct view *both[] = {first, view};
	ck_no_err(compare_init(&compare, both, 2));
	compare_sort(&compare, METRIC_CALLS);
	ck_assert_double_eq_tol(compare_rate(&compare, NULL, 0, METRIC_CALLS), 2416, 2);
	ck_assert_double_eq_tol(compare_rate(&compare, NULL, 1, METRIC_CALLS), 2432, 2);
	compare_deinit(&compare);
	end();
	scene = first_scene;
	analysis = first_analysis;
	suspects = first_suspects;
	view = first;
	end();
}

HT_TEST(a_report_says_when_recording_was_paused)
{
	char *page;
	size_t length;
	make_minute((struct made){10, 20, 2});
	FILE *out = open_memstream(&page, &length);
	const struct text text = {.out = out, .columns = 80};
	const struct page_options options = {.path = "my.htap", .is_utc = true};
	ck_no_err(report_text_write(&text, view, &options));
	fclose(out);
	ck_assert_msg(strstr(page, "\npaused from +10.0 s to +20.0 s: new allocations were not "
				   "recorded\n"),
		"%s", page);
	/* Calls per second of recorded time: 2,016 in 50 s. */
	ck_assert_msg(strstr(page, "\ncalls  2,016 allocations (40/s)"), "%s", page);
	ck_assert_msg(strstr(page, "freed, allocated earlier or in a pause\n"), "%s", page);
	free(page);
	end();
}

/*
 * Compares with a list what the agent records in pauses: frees, and reallocs as frees. Blocks that
 * are allocated in a pause are unknown, and may have addresses of earlier blocks.
 */
HT_TEST(a_pause_makes_no_false_leak)
{
	enum { BLOCKS = 3000, PLACES = 500 };
	static enum { NONE, RECORDED, UNKNOWN } place[PLACES];
	uint64_t allocated = 0, live = 0;
	bool paused = false;
	memset(place, 0, sizeof(place));
	scene_init(&scene);
	srandom(20);
	for (unsigned i = 0; i < BLOCKS; i++) {
		const unsigned at = (unsigned)random() % PLACES, lane = i % 3;
		const uint64_t addr = 0x10000 + 0x1000ull * at;
		if (i % 200 == 199)
			put_pause(paused = !paused);
		if (place[at] == NONE) {
			if (!paused)
				scene_malloc(&scene, lane, addr, 100, 0);
			allocated += !paused;
			place[at] = paused ? UNKNOWN : RECORDED;
		} else if (random() % 3) {
			scene_free(&scene, lane, addr, 104);
			place[at] = NONE;
		} else {
			scene_realloc_begin(&scene, lane, addr, 104);
			if (paused)
				scene_realloc_done(&scene, lane, ABI_EVENT_REALLOC_FREED);
			else
				scene_realloc_end(&scene, lane, addr, 100, 0);
			allocated += !paused;
			place[at] = paused ? UNKNOWN : RECORDED;
		}
	}
	for (unsigned i = 0; i < PLACES; i++)
		live += place[i] == RECORDED;
	analysis = scene_analyze(&scene);
	view = scene_view_of_all(analysis, false);
	ck_assert_uint_gt(analysis->model.pause_count, 5);
	ck_assert_uint_eq(view->total.allocations, allocated);
	ck_assert_uint_eq(sums_outstanding_blocks(&view->total), live);
	ck_assert_uint_eq(analysis->model.counts.inferred_frees, 0);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_SUITE("analyzer/views/pauses")
