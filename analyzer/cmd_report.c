/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze report: the numbers of a window, for a person or as JSON.
 */
#include "analyzer/cmd.h"

#include <unistd.h>

#include "analyzer/export/report_json.h"
#include "analyzer/ui/report_text.h"
#include "analyzer/ui/watch.h"

/* Stacks shown without --limit: in the JSON list, and in each of the four lists of the text. */
#define JSON_STACKS 20u
#define TEXT_STACKS 5u

static struct ht_err *write_report(struct view *view, const struct option_values *values)
{
	const struct model_ending ending = model_ending(&view->analysis->model);
	bool json = option_is_given(values, OPTION_JSON);
	size_t limit = option_number(values, OPTION_LIMIT, json ? JSON_STACKS : TEXT_STACKS);
	/* The page begins with it, too. */
	bool is_shown = !json && isatty(STDOUT_FILENO);
	cmd_warn_ending(&ending, is_shown);
	if (json)
		return report_json_write(stdout, view, limit);
	struct cmd_output output;
	struct ht_err *err = cmd_output_open(values, &output);
	if (err)
		return err;
	const struct report_text_options page = {
		.path = values->operand[0],
		.limit = limit,
	};
	err = report_text_write(&output.text, view, &page);
	return ht_err_first(err, cmd_output_close(&output, "the report"));
}

struct ht_err *cmd_report(const struct option_values *values)
{
	const char *path = values->operand[0];
	const struct resolve_files files = cmd_files(values);
	int fd;
	struct ht_err *err = cmd_open_trace(path, &fd);
	if (err)
		return err;
	struct analysis *analysis = NULL;
	struct view *view = NULL;
	struct query query;
	query_init(&query);
	query.shows_wrappers = option_is_given(values, OPTION_SHOW_WRAPPERS);
	struct watch watch;
	watch_begin(&watch, stderr, fd, path);
	err = analysis_create(fd, path, &analysis);
	watch_end(&watch);
	close(fd);
	if (!err)
		err = analysis_resolve(analysis, &files);
	if (!err)
		err = view_create(analysis, &query, false, &view);
	if (!err)
		err = write_report(view, values);
	view_destroy(view);
	analysis_destroy(analysis);
	return ht_err_first(err, cmd_flush(stdout, "the report"));
}
