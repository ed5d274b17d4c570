/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of export formats: help and man page say what it says, and a query that a format cannot
 * answer is refused.
 */
#include "analyzer/commands.h"
#include "tests/unit/analyzer/exported.h"

#define PAGE "analyzer/heaptap-analyze.1"

static char *read_page(void)
{
	char *text = NULL, buffer[4096];
	size_t length, got;
	FILE *page = fopen(PAGE, "r"), *memory = open_memstream(&text, &length);
	ck_assert_msg(page, "no " PAGE);
	while ((got = fread(buffer, 1, sizeof(buffer), page)) > 0)
		fwrite(buffer, 1, got, memory);
	fclose(page);
	fclose(memory);
	return text;
}

HT_TEST(the_man_page_has_each_format_and_its_sums)
{
	char *page = read_page(), row[512];
	for (size_t i = 0; i < export_format_count; i++) {
		snprintf(row, sizeof(row), "\n.It Cm %s Ta %s\n", export_format[i].name,
			export_format[i].sums);
		ck_assert_msg(strstr(page, row), "no %s", row);
		snprintf(row, sizeof(row), "\n.It Cm %s\n", export_format[i].name);
		ck_assert_msg(strstr(page, row), "no %s", row);
	}
	free(page);
}

HT_TEST(help_says_what_each_is_for)
{
	const struct option_command *command = option_find_command(&commands_table, "export");
	char part[256];
	for (size_t i = 0; i < export_format_count; i++) {
		ck_assert_str_eq(export_names[i], export_format[i].name);
		snprintf(part, sizeof(part), "%s is for %s.", export_format[i].name,
			export_format[i].purpose);
		ck_assert_ptr_nonnull(strstr(command->description, part));
	}
	ck_assert_ptr_null(export_names[export_format_count]);
}

/* Formats of events or series refuse a query about one moment, formats of events refuse --min-age,
 * and formats of a metric refuse a mean. */
HT_TEST(queries_that_a_format_cannot_answer)
{
	struct query query;
	for (size_t i = 0; i < export_format_count; i++) {
		const struct export_format *format = &export_format[i];
		query_init(&query);
		ck_no_err(export_check(format, &query, METRIC_OUTSTANDING));
		query.alive_at = "+1s";
		if (format->traits & (EXPORT_EVENTS | EXPORT_SERIES))
			ck_err_says(export_check(format, &query, METRIC_OUTSTANDING), HT_ERR_USAGE,
				format->name);
		else
			ck_no_err(export_check(format, &query, METRIC_OUTSTANDING));
		query_init(&query);
		query.min_age_ns = 1;
		if (format->traits & EXPORT_EVENTS)
			ck_err_says(export_check(format, &query, METRIC_OUTSTANDING), HT_ERR_USAGE,
				"--min-age");
		else
			ck_no_err(export_check(format, &query, METRIC_OUTSTANDING));
		query_init(&query);
		if (format->traits & EXPORT_METRIC)
			ck_err_says(export_check(format, &query, METRIC_LIFETIME), HT_ERR_USAGE,
				"is a mean");
	}
}

static struct exported exported;

/* Each format has the same sums for a part of the trace, and a filter leaves the same blocks out of
 * each. */
HT_TEST(a_window_and_a_filter_apply)
{
	struct query query;
	query_init(&query);
	query.from = "+100ms";
	ck_no_err(query_add(&query.threads, "--thread", "100"));
	exported = (struct exported){0};
	scene_init(&exported.scene);
	scene_malloc(&exported.scene, 0, 0x1000, 10, 0);
	exported.scene.now += 200000000;
	scene_malloc(&exported.scene, 0, 0x2000, 20, 0);
	scene_malloc(&exported.scene, 1, 0x3000, 40, 0);
	scene_free(&exported.scene, 0, 0x1000, 24);
	ck_assert_str_eq(exported_as(&exported, "collapsed", &query), "(no stack) 20\n");
	ck_assert_str_eq(exported_as(&exported, "difffolded", &query), "(no stack) 20 20\n");
	exported_as(&exported, "heaptrack", &query);
	ck_assert_uint_eq(exported.job.stats.calls, 1);
	ck_assert_uint_eq(exported.job.stats.leaked_bytes, 20);
	exported_as(&exported, "callgrind", &query);
	exported_has(&exported, "\ntotals: 20 ");
	exported_as(&exported, "speedscope", &query);
	exported_has(&exported, "\"endValue\":20,");
	exported_as(&exported, "dhat", &query);
	exported_has(&exported, "{\"tb\":20,\"tbk\":1,");
	exported_as(&exported, "massif", &query);
	exported_has(
		&exported, "mem_heap_B=10\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=empty");
	exported_has(
		&exported, "mem_heap_B=20\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed");
	exported_as(&exported, "csv", &query);
	exported_has(&exported, "\n20,20,10,20,");
	exported_end(&exported);
}

/* The cube folds stacks only beyond a million cells: here the test folds the one of 7 bytes. */
HT_TEST(folded_stacks_are_other)
{
	static const char *const format[] = {
		"collapsed", "pprof", "speedscope", "massif", "dhat", "callgrind", "csv"};
	exported_begin(&exported);
	exported.analysis = scene_analyze(&exported.scene);
	struct cube *cube = &exported.analysis->cube;
	for (uint32_t i = 0; i < cube->site_count; i++)
		if (cube->site[i].node && cube_site_size_class(&cube->site[i]) == 3) {
			cube->site[i].node = CUBE_OTHER;
			cube->other = i + 1;
		}
	ck_assert_uint_ne(cube->other, 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(format); i++) {
		exported_as(&exported, format[i], NULL);
		ck_assert_msg(memmem(exported.text, exported.length, "(folded)", 7), "%s: %s",
			format[i], exported.text);
	}
	exported_end(&exported);
}

HT_SUITE("analyzer/export_table")
