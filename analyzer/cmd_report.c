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

static struct report_options options_of(
	const struct option_values *values, size_t limit, const char *const *member)
{
	return (struct report_options){
		.limit = option_number(values, OPTION_LIMIT, limit),
		.order = order_of(values),
		.has_class = option_is_given(values, OPTION_CLASS),
		.of_class = (enum suspect_class)option_number(values, OPTION_CLASS, 0),
		.has_by = option_is_given(values, OPTION_BY),
		.by = (enum breakdown_by)option_number(values, OPTION_BY, 0),
		.member = member,
	};
}

static struct ht_err *write_text(const struct view *view, const struct option_values *values)
{
	const struct report_options options = options_of(values, TEXT_ROWS, NULL);
	const struct page_options page = {
		.path = values->operand[0],
		.limit = options.limit,
		.shows_stacks = option_is_given(values, OPTION_STACKS),
		.is_brief = option_is_given(values, OPTION_BRIEF),
		.is_exact = option_is_given(values, OPTION_BYTES),
		.is_utc = option_is_given(values, OPTION_UTC),
		.has_metric = option_is_given(values, OPTION_METRIC),
		.has_sort = option_is_given(values, OPTION_SORT),
		.has_by = options.has_by,
		.has_class = options.has_class,
		.metric = (enum metric)option_number(values, OPTION_METRIC, METRIC_OUTSTANDING),
		.sort = options.order,
		.by = options.by,
		.of_class = options.of_class,
	};
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	struct ht_err *err = report_text_write(&output.text, view, &page);
	return ht_err_first(err, cmd_output_close(&output, "the report"));
}

/* `member`: names of the members of the JSON to write; NULL: what the options ask for. */
static struct ht_err *run(const struct option_values *values, const char *const *member)
{
	struct cmd_view view;
	enum cmd_format format;
	HT_TRY(cmd_format_of(values, &format));
	if (option_is_given(values, OPTION_ALIVE_AT) && option_is_given(values, OPTION_BY) &&
		option_number(values, OPTION_BY, 0) == BREAKDOWN_LIFETIME)
		return ht_err_new(HT_ERR_USAGE,
			"--by lifetime is not known for the blocks that --alive-at chooses");
	if (member)
		format = CMD_JSON;
	const struct report_options options =
		options_of(values, format == CMD_JSON ? JSON_STACKS : 0, member);
	/* A text report on a terminal shows the warning itself, in its first lines. */
	struct ht_err *err = cmd_view_open(
		values, values->operand[0], format == CMD_TEXT && isatty(STDOUT_FILENO), &view);
	HT_THEN(err, format == CMD_JSON	 ? report_json_write(stdout, view.view, &options)
		     : format == CMD_CSV ? report_csv_write(stdout, view.view, &options)
					 : write_text(view.view, values));
	cmd_view_close(&view);
	return ht_err_first(err, cmd_flush(stdout, "the report"));
}

struct ht_err *cmd_report(const struct option_values *values)
{
	return run(values, NULL);
}

struct ht_err *cmd_report_members(const struct option_values *values, const char *const *member)
{
	return run(values, member);
}
