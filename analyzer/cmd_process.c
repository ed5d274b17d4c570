/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_process.h"

#include "analyzer/live/seek.h"

static bool is_sought(const struct option_values *values)
{
	return option_is_given(values, OPTION_NAME) || option_is_given(values, OPTION_UNIT) ||
	       option_is_given(values, OPTION_CONTAINER);
}

bool cmd_process_is_given(const struct option_values *values)
{
	return option_is_given(values, OPTION_PID) || is_sought(values);
}

struct ht_err *cmd_process_find(const struct option_values *values, pid_t *ret)
{
	const struct seek_query query = {.name = option_text(values, OPTION_NAME, NULL),
		.unit = option_text(values, OPTION_UNIT, NULL),
		.container = option_text(values, OPTION_CONTAINER, NULL)};
	*ret = (pid_t)option_number(values, OPTION_PID, 0);
	if (!is_sought(values))
		return NULL;
	if (*ret)
		return ht_err_new(HT_ERR_USAGE, "-p names the process already");
	return seek_process(&query, ret);
}
