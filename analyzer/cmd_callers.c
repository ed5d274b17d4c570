/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze callers: one function, who calls it and what it calls.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/export/callers_json.h"
#include "analyzer/ui/callers_text.h"

static struct ht_err *write_text(const struct option_values *values, const struct cmd_calls *opened,
	const struct function_matches *matches, const struct function *callers)
{
	struct cmd_output output;
	struct ht_err *err = cmd_output_open(values, &output);
	if (err)
		return err;
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	callers_text_write(&page, matches, callers);
	return cmd_output_close(&output, "the callers");
}

static struct ht_err *write_callers(const struct option_values *values, enum cmd_format format,
	const struct cmd_calls *opened, const struct function_matches *matches)
{
	struct function callers;
	struct ht_err *err = function_init(&callers, &opened->calls, matches);
	if (err)
		return err;
	if (format == CMD_JSON)
		err = callers_json_write(stdout, &opened->calls, matches, &callers);
	else if (format == CMD_CSV)
		callers_csv_write(stdout, &opened->calls, matches, &callers);
	else
		err = write_text(values, opened, matches, &callers);
	function_deinit(&callers);
	return err;
}

struct ht_err *cmd_callers(const struct option_values *values)
{
	struct function_matches matches = {0};
	enum cmd_format format;
	struct cmd_calls opened;
	struct ht_err *err = cmd_calls_format(values, &format);
	if (err)
		return err;
	err = cmd_calls_open(values, false, &opened);
	if (!err)
		err = cmd_calls_function(values, format, "heaptap.callers/1", &opened, &matches);
	if (!err)
		err = write_callers(values, format, &opened, &matches);
	function_matches_deinit(&matches);
	cmd_calls_close(&opened);
	return err;
}
