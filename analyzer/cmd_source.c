/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze source: the figures of each source line of a function.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/cmd_calls.h"
#include "analyzer/export/source_json.h"
#include "analyzer/ui/source_text.h"
#include "format/array.h"

_Static_assert(OPTION_REPEAT_MAX == SOURCE_DIRS_MAX, "--source-dir has room");

struct source_places cmd_source_places(const struct option_values *values)
{
	struct source_places places = {.sysroot = option_text(values, OPTION_SYSROOT, "")};
	const struct option_value *dir = NULL;
	while ((dir = option_next(values, OPTION_SOURCE_DIR, dir)))
		places.dir[places.dir_count++] = dir->text;
	return places;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x < y) - (x > y);
}

/* Keeps the `limit` lines with the largest values, in the order of the file. */
static struct ht_err *limit_lines(struct function *function, size_t limit)
{
	const size_t count = function->line_count;
	HT_FREED int64_t *value = calloc(count + 1, sizeof(*value));
	if (!value)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", count);
	for (size_t i = 0; i < count; i++)
		value[i] = function->line[i].sum.inclusive.value;
	qsort(value, count, sizeof(*value), compare);
	const int64_t least = value[limit - 1];
	size_t equal = 0;
	for (size_t i = 0; i < limit; i++)
		equal += value[i] == least;
	function->line_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct function_line line = function->line[i];
		if (line.sum.inclusive.value > least ||
			(line.sum.inclusive.value == least && equal && equal--))
			function->line[function->line_count++] = line;
	}
	return NULL;
}

static struct ht_err *write_lines(const struct option_values *values, enum cmd_format format,
	const struct calls_text *page, const struct function_matches *matches,
	const struct function *function)
{
	const struct source_places places = cmd_source_places(values);
	if (format == CMD_JSON)
		return source_json_write(stdout, page->calls, matches, function, &places);
	if (format == CMD_CSV)
		return source_csv_write(stdout, page->calls, function, &places);
	return source_text_write(page, matches, function, &places);
}

static struct ht_err *write_source(const struct option_values *values, enum cmd_format format,
	const struct calls_text *page, const struct function_matches *matches,
	const struct function *function)
{
	const size_t limit = option_number(values, OPTION_LINES, 0), count = function->line_count;
	HT_FREED struct function_line *line = NULL;
	struct function limited = *function;
	if (!limit || limit >= count)
		return write_lines(values, format, page, matches, function);
	line = malloc(count * sizeof(*line));
	if (!line)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", count);
	memcpy(line, function->line, count * sizeof(*line));
	limited.line = line;
	HT_TRY(limit_lines(&limited, limit));
	return write_lines(values, format, page, matches, &limited);
}

struct ht_err *cmd_source(const struct option_values *values)
{
	return cmd_calls_run(values, "heaptap.source/1", write_source, "the source");
}
