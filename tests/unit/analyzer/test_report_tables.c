/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables at the end of a report: figures of a sample have their bounds, within 80 columns.
 */
#include "analyzer/ui/report_tables.h"

#include <stdlib.h>

#include "tests/unit/analyzer/stage.h"

#define COLUMNS 80u
#define PM	"\xc2\xb1"

static char *printed;

/* Blocks of 4095 bytes in a sample of one in 4096 (test_compare.c): each counts for 6478 bytes; the
 * bound of one is 10,146, of two 12,738. A large one is in every sample: it counts once. */
static void print_tables(uint64_t sample_bytes)
{
	struct stage stage;
	size_t length;
	stage_begin_sample(&stage, sample_bytes);
	const uint32_t node = stage_node(&stage, 0, "grow", NULL);
	for (unsigned lane = 0; lane < 2; lane++)
		for (unsigned i = 0; i <= lane; i++)
			stage_alloc(&stage, lane, 4095, node);
	scene_malloc(&stage.scene, 2, 1ull << 40, 1ull << 30, node);
	struct analysis *analysis = scene_analyze(&stage.scene);
	struct view *view = scene_view(analysis, NULL);
	const struct text text = {
		.out = open_memstream(&printed, &length), .columns = COLUMNS, .has_utf8 = true};
	ck_no_err(report_tables_write(&text, view));
	fclose(text.out);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static void check_has(const char *part)
{
	ck_assert_msg(strstr(printed, part) != NULL, "no \"%s\" in:\n%s", part, printed);
}

static void check_width(void)
{
	char *rest = printed;
	for (char *line; (line = strsep(&rest, "\n"));)
		ck_assert_msg(text_columns(line) <= COLUMNS, "%s", line);
}

HT_TEST(figures_of_a_sample_have_bounds)
{
	print_tables(4096);
	check_has(" of    6.3 KiB   " PM "157 %    6.3 KiB   " PM "157 %\n");
	check_has(" of   12.7 KiB    " PM "98 %   12.7 KiB    " PM "98 %\n");
	/* The bound is that of three blocks: the large block is exact. */
	check_has("    19.0 KiB    " PM "77 %  ");
	check_has("       1.0 GiB..               1              1.0 GiB           \xe2\x96\x87");
	check_has(" of    1.0 GiB             1.0 GiB\n");
	check_has("Threads (allocations, outstanding)\n");
	check_width();
	free(printed);
}

HT_TEST(figures_of_each_allocation_have_none)
{
	print_tables(0);
	ck_assert_ptr_null(strstr(printed, PM));
	check_has(" of    4.0 KiB     4.0 KiB outstanding\n");
	check_has("Threads (allocations)\n");
	check_width();
	free(printed);
}

HT_SUITE("analyzer/report_tables")