/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze callers: one function, its callers and its callees.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/export/callers_json.h"
#include "analyzer/ui/callers_text.h"

static struct ht_err *write_text(const struct option_values *values, const struct cmd_calls *opened,
	const struct function_matches *matches, const struct function *callers)
{
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	callers_text_write(&page, matches, callers);
	return cmd_output_close(&output, "the callers");
}

static struct ht_err *write_callers(const struct option_values *values, enum cmd_format format,
	const struct cmd_calls *opened, const struct function_matches *matches,
	const struct function *function)
{
	if (format == CMD_JSON)
		return callers_json_write(stdout, &opened->calls, matches, function);
	if (format == CMD_TEXT)
		return write_text(values, opened, matches, function);
	callers_csv_write(stdout, &opened->calls, matches, function);
	return NULL;
}

struct ht_err *cmd_callers(const struct option_values *values)
{
	return cmd_calls_run(values, "heaptap.callers/1", write_callers);
}
