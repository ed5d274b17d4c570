/* SPDX-License-Identifier: Apache-2.0
 *
 * The export to heaptrack's format, read by the real heaptrack_print: its totals are those that its
 * rules give for the same events, and those rules agree with heaptap's where they should.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/scene.h"

#define PRINT_LIMIT_MS 20000u

static struct scene scene;
static struct export_heaptrack_stats stats;
static char *path, *printed;
static uint32_t outer, leaf, other;

static void begin(void)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/target", "12345678901234567890", 0x400000, 0x500000);
	outer = tracebuild_node(&scene.trace, 0, 0x400100);
	leaf = tracebuild_node(&scene.trace, outer, 0x400200);
	other = tracebuild_node(&scene.trace, outer, 0x400300);
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0x1ff,
			.frame_count = 2,
			.frame = {{.function = {"inner\n", 6}, .file = {"in.h", 4}, .line = 7},
				{.function = {"caller", 6}, .file = {"out.c", 5}, .line = 9}}},
	};
	tracebuild_put(&scene.trace, &symbol);
	tracebuild_symbol(&scene.trace, 1, 0x2ff, "unplaced", NULL, 0);
}

/* Ends the trace, exports it, and lets heaptrack_print read it. */
static void export_and_print(void)
{
	struct analysis *analysis = scene_analyze(&scene);
	path = tmpdir_path("export.txt");
	FILE *out = fopen(path, "w");
	ck_assert_ptr_nonnull(out);
	struct view *view = scene_view(analysis, NULL);
	struct export_job job = {.view = view, .fd = scene.trace.fd, .name = "scene"};
	ck_no_err(export_heaptrack(out, &job));
	stats = job.stats;
	view_destroy(view);
	ck_assert_int_eq(fclose(out), 0);
	const struct cube *cube = &analysis->cube;
	ck_assert_uint_eq(stats.calls, cube->total.samples);
	ck_assert_uint_eq(stats.leaked_bytes, cube_live_bytes(cube));
	ck_assert_uint_eq(stats.peak_bytes, cube->peak_bytes);
	analysis_destroy(analysis);
	const char *const argv[] = {
		"heaptrack_print", "--disable-builtin-suppressions", "-l", "1", "-f", path, NULL};
	char *complaints;
	ck_assert_int_eq(run_program(argv, PRINT_LIMIT_MS, &printed, &complaints), 0);
	ck_assert_msg(!strstr(complaints, "failed to parse") && !strstr(complaints, "unexpected"),
		"%s", complaints);
	free(complaints);
}

static void end(void)
{
	free(path);
	free(printed);
	scene_deinit(&scene);
}

static void check_printed(const char *want)
{
	ck_assert_msg(strstr(printed, want), "\"%s\" is not in\n%s", want, printed);
}

static void check_totals(void)
{
	char line[100];
	snprintf(line, sizeof(line), "calls to allocation functions: %u ", (unsigned)stats.calls);
	check_printed(line);
	snprintf(
		line, sizeof(line), "temporary memory allocations: %u ", (unsigned)stats.temporary);
	check_printed(line);
	/* heaptrack_print prints less than 1000 bytes as whole bytes. */
	snprintf(line, sizeof(line), "peak heap memory consumption: %uB\n",
		(unsigned)stats.peak_bytes);
	check_printed(line);
	snprintf(line, sizeof(line), "total memory leaked: %uB\n", (unsigned)stats.leaked_bytes);
	check_printed(line);
}

HT_TEST(totals_equal_those_of_heaptrack_print)
{
	begin();
	for (unsigned i = 0; i < 10; i++)
		scene_malloc(&scene, 0, 0x1000 + 0x100 * i, 16, leaf);
	for (unsigned i = 0; i < 9; i++)
		scene_free(&scene, 0, 0x1000 + 0x100 * i, 24);
	scene_malloc(&scene, 1, 0x9000, 100, other);
	scene_realloc_begin(&scene, 1, 0x9000, 104);
	scene_realloc_end(&scene, 1, 0x9100, 300, other);
	scene_malloc(&scene, 0, 0x9200, 5, 0);
	scene_free(&scene, 0, 0x9200, 24);
	scene_free(&scene, 0, 0x9100, 304);
	scene_malloc(&scene, 0, 0x9300, 50, other);
	export_and_print();
	/* Temporary by heaptrack's rule, which compares kinds of allocations, not blocks: the first
	 * free, of the kind that was allocated last; the realloc; the free of 5 bytes. */
	ck_assert_uint_eq(stats.calls, 14);
	ck_assert_uint_eq(stats.temporary, 3);
	ck_assert_uint_eq(stats.leaked_bytes, 66);
	check_totals();
	end();
}

HT_TEST(frees_of_older_blocks_are_left_out)
{
	begin();
	scene_free(&scene, 0, 0x5000, 24);
	scene_free(&scene, 0, 0x6000, 24);
	scene_malloc(&scene, 0, 0x7000, 10, leaf);
	export_and_print();
	ck_assert_uint_eq(stats.temporary, 0);
	check_totals();
	end();
}

HT_TEST(the_first_kind_is_no_exception)
{
	begin();
	scene_malloc(&scene, 0, 0x7000, 10, leaf);
	scene_malloc(&scene, 0, 0x8000, 20, leaf);
	scene_free(&scene, 0, 0x8000, 24);
	scene_free(&scene, 0, 0x7000, 24); /* after a free: not temporary by heaptrack's rule */
	export_and_print();
	ck_assert_uint_eq(stats.temporary, 1);
	check_totals();
	end();
}

HT_TEST(many_frees_of_the_first_kind)
{
	begin();
	for (unsigned i = 0; i < 10; i++)
		scene_malloc(&scene, 0, 0x1000 + 0x100 * i, 16, leaf);
	for (unsigned i = 0; i < 10; i++)
		scene_free(&scene, 0, 0x1000 + 0x100 * i, 24);
	export_and_print();
	ck_assert_uint_eq(stats.temporary, 1);
	ck_assert_uint_eq(stats.leaked_bytes, 0);
	check_totals();
	end();
}

/* Kinds must first occur in their order: else heaptrack_gui writes past an array. */
static void check_order_of_kinds(void)
{
	unsigned long kinds = 0, next = 0, kind;
	char line[256];
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		kinds += line[0] == 'a';
		if (sscanf(line, "+ %lx", &kind) != 1)
			continue;
		ck_assert_uint_le(kind, next);
		next += kind == next;
	}
	fclose(file);
	ck_assert_uint_gt(next, 0);
	/* The last kind is a second entry of the first one. */
	ck_assert_uint_eq(kinds, next + 1);
}

HT_TEST(kinds_are_first_used_in_their_order)
{
	begin();
	for (unsigned i = 0; i < 30; i++)
		scene_malloc(&scene, i % 3, 0x1000 + 0x100 * i, i * 7 % 11, i % 2 ? leaf : other);
	for (unsigned i = 0; i < 30; i += 2)
		scene_free(&scene, 0, 0x1000 + 0x100 * i, 24);
	scene_malloc(&scene, 0, 0x9000, 5000, 0);
	export_and_print();
	check_order_of_kinds();
	end();
}

HT_TEST(names_lines_and_inlined_functions_arrive)
{
	begin();
	scene_malloc(&scene, 0, 0x7000, 10, leaf);
	scene_malloc(&scene, 0, 0x8000, 20, other);
	scene_malloc(&scene, 0, 0x9000, 30, 0);
	tracebuild_rss(&scene.trace, scene.now, 4096 * 250);
	export_and_print();
	check_printed("inner?");
	check_printed("at in.h:7");
	check_printed("caller");
	check_printed("unplaced");
	check_printed("(no stack)");
	check_printed("in /usr/bin/target");
	check_printed("peak RSS (including heaptrack overhead): 1.02M");
	end();
}

HT_TEST(time_runs_to_the_end_of_the_window)
{
	begin();
	scene_malloc(&scene, 0, 0x7000, 10, leaf);
	scene_sync(&scene);
	scene.now += 2000000000;
	scene_malloc(&scene, 0, 0x8000, 10, leaf);
	export_and_print();
	check_printed("total runtime: 2.00");
	end();
}

HT_TEST(an_empty_window_is_an_export)
{
	begin();
	export_and_print();
	check_totals();
	end();
}

HT_TEST(a_sample_is_one_object_of_what_it_stands_for)
{
	begin();
	scene_deinit(&scene);
	scene_init_sample(&scene, 1 << 19);
	for (unsigned i = 0; i < 400; i++)
		scene_malloc(&scene, 0, 0x10000 + 0x1000 * i, 99, 0);
	for (unsigned i = 0; i < 100; i++)
		scene_free(&scene, 0, 0x10000 + 0x1000 * i, 0);
	export_and_print();
	ck_assert_uint_eq(stats.sample_bytes, 1 << 19);
	ck_assert_uint_eq(stats.calls, 400);
	ck_assert_uint_eq(stats.peak_bytes, 400 * 519095); /* each block counts for 519,095 bytes */
	ck_assert_uint_eq(stats.leaked_bytes, 300 * 519095);
	check_printed("calls to allocation functions: 400 ");
	end();
}

HT_SUITE("analyzer/heaptrack")
