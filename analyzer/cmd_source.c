/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze source: what each line of a function accounts for.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/export/source_json.h"
#include "analyzer/ui/source_text.h"

_Static_assert(OPTION_REPEAT_MAX == SOURCE_DIRS_MAX, "--source-dir has room");

struct source_places cmd_source_places(const struct option_values *values)
{
	struct source_places places = {.sysroot = option_text(values, OPTION_SYSROOT, "")};
	const struct option_value *dir = NULL;
	while ((dir = option_next(values, OPTION_SOURCE_DIR, dir)))
		places.dir[places.dir_count++] = dir->text;
	return places;
}

static struct ht_err *write_text(const struct option_values *values, const struct cmd_calls *opened,
	const struct function_matches *matches, const struct function *callers)
{
	const struct source_places places = cmd_source_places(values);
	struct cmd_output output;
	struct ht_err *err = cmd_output_open(values, &output);
	if (err)
		return err;
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	err = source_text_write(&page, matches, callers, &places);
	return ht_err_first(err, cmd_output_close(&output, "the source"));
}

static struct ht_err *write_source(const struct option_values *values, enum cmd_format format,
	const struct cmd_calls *opened, const struct function_matches *matches,
	const struct function *function)
{
	const struct source_places places = cmd_source_places(values);
	if (format == CMD_JSON)
		return source_json_write(stdout, &opened->calls, matches, function, &places);
	if (format == CMD_CSV)
		return source_csv_write(stdout, function, &places);
	return write_text(values, opened, matches, function);
}

struct ht_err *cmd_source(const struct option_values *values)
{
	return cmd_calls_run(values, "heaptap.source/1", write_source);
}
