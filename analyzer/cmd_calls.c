/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_calls.h"

#include <stdlib.h>

#include "analyzer/export/callers_json.h"
#include "analyzer/export/calls_json.h"
#include "analyzer/ui/callers_text.h"
#include "analyzer/views/suspects.h"
#include "format/array.h"

static enum grouping grouping_of(const struct option_values *values)
{
	/* In the order of the words of --by. */
	static const enum grouping grouping[] = {GROUPING_FUNCTION, GROUPING_LINE, GROUPING_ADDRESS,
		GROUPING_MODULE, GROUPING_NAMESPACE};
	return grouping[option_number(values, OPTION_BY_FRAME, 0)];
}

/* Chooses the rows that --class keeps. */
static struct ht_err *choose_rows(const struct option_values *values, struct cmd_calls *ret)
{
	const struct view *view = ret->of.view;
	struct suspects suspects = {0};
	HT_FREED enum suspect_class *of_row = NULL;
	if (!option_is_given(values, OPTION_CLASS))
		return NULL;
	struct ht_err *err = suspects_find(view, &suspects);
	HT_THEN(err, suspects_classes(view, &suspects, &of_row));
	if (!err) {
		ret->has_row = calloc(view->row_count + 1, sizeof(*ret->has_row));
		if (!ret->has_row)
			err = ht_err_new(
				HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	}
	for (size_t i = 0; !err && i < view->row_count; i++)
		ret->has_row[i] = of_row[i] == option_number(values, OPTION_CLASS, 0);
	suspects_deinit(&suspects);
	return err;
}

struct ht_err *cmd_calls_open(
	const struct option_values *values, bool is_bottom_up, struct cmd_calls *ret)
{
	struct calls_options options = {
		.grouping = grouping_of(values),
		.is_bottom_up = is_bottom_up,
		.metric = (enum metric)option_number(values, OPTION_METRIC, METRIC_OUTSTANDING),
	};
	options.sort = (enum metric)option_number(values, OPTION_SORT, options.metric);
	*ret = (struct cmd_calls){0};
	struct ht_err *err = cmd_view_open(values, values->operand[0], false, &ret->of);
	HT_THEN(err, calls_check(ret->of.view, options.metric, options.sort));
	HT_THEN(err, choose_rows(values, ret));
	options.has_row = ret->has_row;
	return err ? err : calls_init(&ret->calls, ret->of.view, &options);
}

void cmd_calls_close(struct cmd_calls *opened)
{
	calls_deinit(&opened->calls);
	free(opened->has_row);
	cmd_view_close(&opened->of);
}

struct calls_text cmd_calls_page(
	const struct option_values *values, const struct cmd_calls *opened, const struct text *text)
{
	const enum option_id limit =
		option_is_given(values, OPTION_CALLERS) ? OPTION_CALLERS : OPTION_CALLEES;
	return (struct calls_text){
		.text = text,
		.calls = &opened->calls,
		.limit = option_number(values, limit, 0),
		.has_limit = option_is_given(values, limit),
		.is_exact = option_is_given(values, OPTION_BYTES),
	};
}

static struct ht_err *write_text(const struct option_values *values, const struct cmd_calls *opened,
	struct ht_err *(*write)(const struct calls_text *page), const char *what)
{
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	struct ht_err *err = write(&page);
	return ht_err_first(err, cmd_output_close(&output, what));
}

struct ht_err *cmd_calls_tree(const struct option_values *values, bool is_bottom_up,
	struct ht_err *(*write)(const struct calls_text *page), const char *what)
{
	const size_t limit = option_number(values, OPTION_CALLEES, 0);
	enum cmd_format format;
	struct cmd_calls opened;
	HT_TRY(cmd_format_of(values, &format));
	struct ht_err *err = cmd_calls_open(values, is_bottom_up, &opened);
	HT_THEN(err, format == CMD_JSON	 ? calls_json_write(stdout, &opened.calls, limit)
		     : format == CMD_CSV ? calls_csv_write(stdout, &opened.calls, limit)
					 : write_text(values, &opened, write, what));
	cmd_calls_close(&opened);
	return err;
}

static struct ht_err *list_matches(const struct option_values *values, enum cmd_format format,
	const char *schema, const struct cmd_calls *opened, const struct function_matches *matches)
{
	static const struct function none;
	struct cmd_output output;
	switch (format) {
	case CMD_JSON:
		return callers_json_write_matches(stdout, schema, &opened->calls, matches);
	case CMD_CSV:
		callers_csv_write(stdout, &opened->calls, matches, &none);
		return NULL;
	case CMD_TEXT:
		break;
	}
	HT_TRY(cmd_output_open(values, &output));
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	callers_text_write_matches(&page, matches);
	return cmd_output_close(&output, "the functions");
}

static struct ht_err *find_function(const struct option_values *values, enum cmd_format format,
	const char *schema, const struct cmd_calls *opened, struct function_matches *ret)
{
	const char *text = values->operand[1];
	struct ht_err *err = function_find(&opened->calls, text, ret);
	if (err || ret->is_one)
		return err;
	err = list_matches(values, format, schema, opened, ret);
	HT_THEN(err, ht_err_new(HT_ERR_USAGE,
			     "\"%.200s\" fits %zu functions; give the whole name of one, in quotes",
			     text, ret->count));
	function_matches_deinit(ret);
	return err;
}

static struct ht_err *write_function(const struct option_values *values, enum cmd_format format,
	const struct cmd_calls *opened, const struct function_matches *matches,
	cmd_calls_writer *write, const char *what)
{
	struct function function;
	struct cmd_output output;
	HT_TRY(function_init(&function, &opened->calls, matches));
	struct ht_err *err = format == CMD_TEXT ? cmd_output_open(values, &output) : NULL;
	if (!err) {
		const struct calls_text page =
			cmd_calls_page(values, opened, format == CMD_TEXT ? &output.text : NULL);
		err = write(values, format, &page, matches, &function);
		if (format == CMD_TEXT)
			err = ht_err_first(err, cmd_output_close(&output, what));
	}
	function_deinit(&function);
	return err;
}

struct ht_err *cmd_calls_run(const struct option_values *values, const char *schema,
	cmd_calls_writer *write, const char *what)
{
	struct function_matches matches = {0};
	enum cmd_format format;
	struct cmd_calls opened;
	HT_TRY(cmd_format_of(values, &format));
	struct ht_err *err = cmd_calls_open(values, false, &opened);
	HT_THEN(err, find_function(values, format, schema, &opened, &matches));
	HT_THEN(err, write_function(values, format, &opened, &matches, write, what));
	function_matches_deinit(&matches);
	cmd_calls_close(&opened);
	return err;
}
