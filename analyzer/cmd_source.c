/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze source: what each line of a function accounts for.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/export/source_json.h"
#include "analyzer/ui/source_text.h"

_Static_assert(OPTION_REPEAT_MAX == SOURCE_DIRS_MAX, "--source-dir has room");

static struct source_places places_of(const struct option_values *values)
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
	const struct source_places places = places_of(values);
	struct cmd_output output;
	struct ht_err *err = cmd_output_open(values, &output);
	if (err)
		return err;
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	err = source_text_write(&page, matches, callers, &places);
	return ht_err_first(err, cmd_output_close(&output, "the source"));
}

static struct ht_err *write_source(const struct option_values *values, enum cmd_format format,
	const struct cmd_calls *opened, const struct function_matches *matches)
{
	const struct source_places places = places_of(values);
	struct function callers;
	struct ht_err *err = function_init(&callers, &opened->calls, matches);
	if (err)
		return err;
	if (format == CMD_JSON)
		err = source_json_write(stdout, &opened->calls, matches, &callers, &places);
	else if (format == CMD_CSV)
		err = source_csv_write(stdout, &callers, &places);
	else
		err = write_text(values, opened, matches, &callers);
	function_deinit(&callers);
	return err;
}

struct ht_err *cmd_source(const struct option_values *values)
{
	struct function_matches matches = {0};
	enum cmd_format format;
	struct cmd_calls opened;
	struct ht_err *err = cmd_calls_format(values, &format);
	if (err)
		return err;
	err = cmd_calls_open(values, false, &opened);
	if (!err)
		err = cmd_calls_function(values, format, "heaptap.source/1", &opened, &matches);
	if (!err)
		err = write_source(values, format, &opened, &matches);
	function_matches_deinit(&matches);
	cmd_calls_close(&opened);
	return err;
}
