/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze diff and trend: compare traces.
 */
#include <stdlib.h>

#include "analyzer/cmd.h"
#include "analyzer/export/compare_json.h"
#include "analyzer/ui/compare_text.h"
#include "format/array.h"

#define SITES_SHOWN 20u

struct traces {
	struct cmd_view opened[COMPARE_VIEWS_MAX];
	const struct view *view[COMPARE_VIEWS_MAX];
	uint32_t count;
};

static struct ht_err *open_traces(const struct option_values *values, struct traces *ret)
{
	struct ht_err *err = NULL;
	if (values->operand_count > COMPARE_VIEWS_MAX)
		return ht_err_new(HT_ERR_USAGE, "%s takes %u traces at most", values->command->name,
			COMPARE_VIEWS_MAX);
	while (!err && ret->count < values->operand_count) {
		struct cmd_view *opened = &ret->opened[ret->count];
		err = cmd_view_open(values, values->operand[ret->count], false, opened);
		ret->view[ret->count++] = opened->view;
	}
	return err;
}

static enum metric metric_of(const struct option_values *values)
{
	return (enum metric)option_number(values, OPTION_METRIC, METRIC_OUTSTANDING);
}

static struct ht_err *write_text(const struct option_values *values, struct compare *compare,
	size_t limit, void (*write)(const struct compare_text *))
{
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	const struct compare_text page = {
		.text = &output.text,
		.compare = compare,
		.path = values->operand,
		.metric = metric_of(values),
		.limit = limit,
		.utc = option_is_given(values, OPTION_UTC),
	};
	write(&page);
	return cmd_output_close(&output, "the comparison");
}

static struct ht_err *write_compare(const struct option_values *values, struct compare *compare,
	void (*write)(const struct compare_text *))
{
	const size_t limit = option_number(values, OPTION_LIMIT, SITES_SHOWN);
	const enum metric metric = metric_of(values);
	compare_sort(compare, metric);
	if (option_is_given(values, OPTION_JSON))
		return compare_json_write(stdout, compare, values->operand, metric, limit);
	if (!option_is_given(values, OPTION_CSV))
		return write_text(values, compare, limit, write);
	compare_csv_write(stdout, compare, metric, limit);
	return NULL;
}

static struct ht_err *run(
	const struct option_values *values, void (*write)(const struct compare_text *))
{
	struct compare compare = {0};
	HT_FREED struct traces *traces = calloc(1, sizeof(*traces));
	if (!traces)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the traces");
	struct ht_err *err = open_traces(values, traces);
	HT_THEN(err, compare_init(&compare, traces->view, traces->count));
	HT_THEN(err, write_compare(values, &compare, write));
	compare_deinit(&compare);
	for (uint32_t i = 0; i < traces->count; i++)
		cmd_view_close(&traces->opened[i]);
	return ht_err_first(err, cmd_flush(stdout, "the comparison"));
}

struct ht_err *cmd_diff(const struct option_values *values)
{
	return run(values, compare_text_diff);
}

struct ht_err *cmd_trend(const struct option_values *values)
{
	return run(values, compare_text_trend);
}
