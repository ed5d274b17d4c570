/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze callers: one function, its callers and its callees.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/export/callers_json.h"
#include "analyzer/ui/callers_text.h"

static struct ht_err *write_callers(const struct option_values *values, enum cmd_format format,
	const struct calls_text *page, const struct function_matches *matches,
	const struct function *function)
{
	(void)values;
	if (format == CMD_JSON)
		return callers_json_write(stdout, page->calls, matches, function);
	if (format == CMD_CSV)
		callers_csv_write(stdout, page->calls, matches, function);
	else
		callers_text_write(page, matches, function);
	return NULL;
}

struct ht_err *cmd_callers(const struct option_values *values)
{
	return cmd_calls_run(values, "heaptap.callers/1", write_callers, "the callers");
}
