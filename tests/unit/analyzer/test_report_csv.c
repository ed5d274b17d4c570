/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as comma-separated values, parsed back: columns, quoting, sums.
 */
#include "analyzer/export/report_csv.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyzer/stage.h"

#define COLUMNS_MAX 40u
#define ROWS_MAX    64u

static struct stage stage;
static struct analysis *analysis;
static struct view *view;
static char *bytes;
static struct {
	char *cell[COLUMNS_MAX];
	size_t count;
} row[ROWS_MAX];
static size_t rows;

/* Parses one cell in place. Returns the text after its comma or line end; `ret_ends`: the row ends
 * here. */
static char *parse_cell(char *at, char **ret, bool *ret_ends)
{
	const bool is_quoted = *at == '"';
	char *to = at += is_quoted;
	*ret = to;
	for (; *at; at++) {
		if (is_quoted && *at == '"' && at[1] != '"')
			break;
		if (!is_quoted && (*at == ',' || *at == '\r'))
			break;
		at += is_quoted && *at == '"';
		*to++ = *at;
	}
	at += is_quoted;
	*ret_ends = *at == '\r';
	ck_assert_msg(*at == ',' || !strncmp(at, "\r\n", 2), "\"%.20s\"", at);
	at += *ret_ends ? 2 : 1;
	*to = '\0';
	return at;
}

static void parse(void)
{
	rows = 0;
	for (char *at = bytes; *at; rows++) {
		bool ends = false;
		ck_assert_uint_lt(rows, ROWS_MAX);
		row[rows].count = 0;
		while (!ends) {
			ck_assert_uint_lt(row[rows].count, COLUMNS_MAX);
			at = parse_cell(at, &row[rows].cell[row[rows].count++], &ends);
		}
		ck_assert_uint_eq(row[rows].count, row[0].count);
	}
}

static const char *cell(size_t line, const char *column)
{
	for (size_t i = 0; i < row[0].count; i++)
		if (strcmp(row[0].cell[i], column) == 0)
			return row[line].cell[i];
	ck_abort_msg("no column %s", column);
}

static void begin(void)
{
	stage_begin(&stage);
	const uint32_t root = stage_node(&stage, 0, "main", NULL);
	const uint32_t odd = stage_node(&stage, root, "say(\"a, b\")\n\033[1m", NULL);
	stage_alloc(&stage, 0, 100, root);
	for (size_t i = 0; i < 3; i++)
		stage_alloc(&stage, 0, 1000, odd);
	stage_free(&stage, stage_alloc(&stage, 1, 50, 0));
	analysis = scene_analyze(&stage.scene);
	view = scene_view(analysis, NULL);
}

static void write(const struct report_options *options)
{
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	ck_no_err(report_csv_write(out, view, options));
	fclose(out);
	parse();
}

static void end(void)
{
	free(bytes);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

HT_TEST(sites_with_their_figures)
{
	begin();
	write(&(struct report_options){.order = METRIC_OUTSTANDING});
	ck_assert_uint_eq(rows, 4);
	ck_assert_str_eq(cell(1, "outstanding_bytes"), "3000");
	ck_assert_str_eq(cell(1, "outstanding_blocks"), "3");
	ck_assert_str_eq(cell(1, "calls"), "3");
	ck_assert_str_eq(cell(1, "function"), "say(\"a, b\")[1m");
	ck_assert_str_eq(cell(1, "caller"), "main");
	ck_assert_str_eq(cell(1, "module"), STAGE_MODULE);
	ck_assert_str_eq(cell(1, "class"), "unclear");
	ck_assert_str_eq(cell(2, "function"), "main");
	ck_assert_str_eq(cell(3, "outstanding_bytes"), "0");
	ck_assert_str_eq(cell(3, "freed_bytes"), "50");
	ck_assert_str_eq(cell(3, "class"), "");
	ck_assert_str_eq(cell(3, "function"), "");
	end();
}

HT_TEST(limit_order_and_class)
{
	begin();
	write(&(struct report_options){.order = METRIC_FREED, .limit = 1});
	ck_assert_uint_eq(rows, 2);
	ck_assert_str_eq(cell(1, "freed_bytes"), "50");
	free(bytes);
	write(&(struct report_options){
		.order = METRIC_FREED, .has_class = true, .of_class = SUSPECT_GROWING});
	ck_assert_uint_eq(rows, 1);
	end();
}

HT_TEST(tables_sum_up)
{
	static const char *const key[] = {
		[BREAKDOWN_FUNCTION] = "function",
		[BREAKDOWN_LINE] = "line",
		[BREAKDOWN_ADDRESS] = "offset",
		[BREAKDOWN_MODULE] = "module",
		[BREAKDOWN_NAMESPACE] = "namespace",
		[BREAKDOWN_THREAD] = "tid",
		[BREAKDOWN_SIZE] = "least_bytes",
		[BREAKDOWN_LIFETIME] = "least_ns",
	};
	for (size_t by = 0; by < HT_ARRAY_SIZE(key); by++) {
		int64_t sum = 0;
		begin();
		write(&(struct report_options){
			.order = METRIC_ALLOCATED, .has_by = true, .by = (enum breakdown_by)by});
		for (size_t i = 1; i < rows; i++) {
			sum += strtoll(cell(i, "allocated_bytes"), NULL, 10);
			cell(i, key[by]);
		}
		ck_assert_int_eq(sum, 3150);
		end();
	}
}

HT_TEST(inclusive_figures_of_functions)
{
	begin();
	write(&(struct report_options){
		.order = METRIC_ALLOCATED, .has_by = true, .by = BREAKDOWN_FUNCTION});
	ck_assert_str_eq(cell(2, "function"), "main");
	ck_assert_str_eq(cell(2, "allocated_bytes"), "100");
	ck_assert_str_eq(cell(2, "inclusive_allocated_bytes"), "3100");
	end();
}

HT_SUITE("analyzer/report_csv")
