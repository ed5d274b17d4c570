/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze report: what grows and which code allocated it, as text, JSON or CSV.
 */
#include "analyzer/cmd.h"

#include <unistd.h>

#include "analyzer/export/report_csv.h"
#include "analyzer/export/report_json.h"
#include "analyzer/ui/report_text.h"

/* Entries without --limit: stacks in JSON, rows in each list of the text. CSV has all. */
#define JSON_STACKS 20u
#define TEXT_ROWS   10u

/* --sort, else --metric, decides the order. */
static enum metric order_of(const struct option_values *values)
{
	return (enum metric)option_number(
		values, OPTION_SORT, option_number(values, OPTION_METRIC, METRIC_OUTSTANDING));
}

static enum suspect_class class_of(const struct option_values *values)
{
	return (enum suspect_class)option_number(values, OPTION_CLASS, SUSPECT_GROWING);
}

static enum breakdown_by by_of(const struct option_values *values)
{
	return (enum breakdown_by)option_number(values, OPTION_BY, BREAKDOWN_FUNCTION);
}

/* `member`: names of the members to write; NULL: all. */
static struct ht_err *write_json(
	const struct view *view, const struct option_values *values, const char *const *member)
{
	const struct report_json_options options = {
		.limit = option_number(values, OPTION_LIMIT, JSON_STACKS),
		.order = order_of(values),
		.has_class = option_is_given(values, OPTION_CLASS),
		.of_class = class_of(values),
		.has_by = option_is_given(values, OPTION_BY),
		.by = by_of(values),
		.member = member,
	};
	return report_json_write(stdout, view, &options);
}

static struct ht_err *write_csv(const struct view *view, const struct option_values *values)
{
	const struct report_csv_options options = {
		.limit = option_number(values, OPTION_LIMIT, 0),
		.order = order_of(values),
		.has_class = option_is_given(values, OPTION_CLASS),
		.of_class = class_of(values),
		.has_by = option_is_given(values, OPTION_BY),
		.by = by_of(values),
	};
	return report_csv_write(stdout, view, &options);
}

static struct ht_err *write_text(const struct view *view, const struct option_values *values)
{
	const struct page_options page = {
		.path = values->operand[0],
		.limit = option_number(values, OPTION_LIMIT, TEXT_ROWS),
		.shows_stacks = option_is_given(values, OPTION_STACKS),
		.is_brief = option_is_given(values, OPTION_BRIEF),
		.is_exact = option_is_given(values, OPTION_BYTES),
		.is_utc = option_is_given(values, OPTION_UTC),
		.has_metric = option_is_given(values, OPTION_METRIC),
		.has_sort = option_is_given(values, OPTION_SORT),
		.has_by = option_is_given(values, OPTION_BY),
		.has_class = option_is_given(values, OPTION_CLASS),
		.metric = (enum metric)option_number(values, OPTION_METRIC, METRIC_OUTSTANDING),
		.sort = order_of(values),
		.by = by_of(values),
		.of_class = class_of(values),
	};
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	struct ht_err *err = report_text_write(&output.text, view, &page);
	return ht_err_first(err, cmd_output_close(&output, "the report"));
}

static struct ht_err *write_report(const struct view *view, const struct option_values *values)
{
	if (option_is_given(values, OPTION_JSON))
		return write_json(view, values, NULL);
	if (option_is_given(values, OPTION_CSV))
		return write_csv(view, values);
	return write_text(view, values);
}

/* Refuses options that exclude each other. */
static struct ht_err *check(const struct option_values *values)
{
	if (option_is_given(values, OPTION_JSON) && option_is_given(values, OPTION_CSV))
		return ht_err_new(HT_ERR_USAGE, "report takes --json or --csv, not both");
	if (option_is_given(values, OPTION_ALIVE_AT) && option_is_given(values, OPTION_BY) &&
		by_of(values) == BREAKDOWN_LIFETIME)
		return ht_err_new(HT_ERR_USAGE,
			"--by lifetime is not known for the blocks that --alive-at chooses");
	return NULL;
}

struct ht_err *cmd_report(const struct option_values *values)
{
	const bool is_data =
		option_is_given(values, OPTION_JSON) || option_is_given(values, OPTION_CSV);
	struct cmd_view view = {0};
	HT_TRY(check(values));
	/* A text report on a terminal shows the warning itself, in its first lines. */
	struct ht_err *err =
		cmd_view_open(values, values->operand[0], !is_data && isatty(STDOUT_FILENO), &view);
	HT_THEN(err, write_report(view.view, values));
	cmd_view_close(&view);
	return ht_err_first(err, cmd_flush(stdout, "the report"));
}

struct ht_err *cmd_report_members(const struct option_values *values, const char *const *member)
{
	struct cmd_view view = {0};
	HT_TRY(check(values));
	struct ht_err *err = cmd_view_open(values, values->operand[0], false, &view);
	HT_THEN(err, write_json(view.view, values, member));
	cmd_view_close(&view);
	return ht_err_first(err, cmd_flush(stdout, "the report"));
}
