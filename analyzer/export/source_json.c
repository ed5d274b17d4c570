/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/source_json.h"

#include <inttypes.h>

#include "analyzer/export/callers_json.h"
#include "analyzer/export/calls_json.h"

/* The lines [from, to) of one file. */
struct part {
	const struct function *callers;
	size_t from, to;
	struct source source;
	char why[SOURCE_WHY_BYTES];
};

/* Moves to the lines of the next file. False: no more files, or an error. */
static bool next_part(struct part *part, const struct source_places *places, struct ht_err **err)
{
	const struct function *callers = part->callers;
	source_deinit(&part->source);
	part->why[0] = '\0';
	part->from = part->to;
	if (part->from >= callers->line_count || *err)
		return false;
	const char *file = callers->line[part->from].file;
	while (part->to < callers->line_count && callers->line[part->to].file == file)
		part->to++;
	if (file)
		*err = source_read(places, file, &part->source, part->why);
	return !*err;
}

static const char *text_of(const struct part *part, uint32_t line)
{
	return line && line <= part->source.line_count ? part->source.line[line - 1] : NULL;
}

static json_t *part_json(const struct part *part, const struct calls *calls)
{
	const uint64_t start_ns = calls->view->analysis->model.capture.start_unix_ns;
	const struct function_line *line = part->callers->line;
	json_t *array = json_array();
	for (size_t i = part->from; i < part->to; i++)
		array = json_plus(array,
			calls_json_sum(json_pack("{so so}", "line",
					       json_number_or_null(line[i].line, line[i].line),
					       "text", json_text(text_of(part, line[i].line))),
				calls, &line[i].sum));
	json_t *object = json_pack("{so so so sb so}", "file", json_text(line[part->from].file),
		"path", json_text(part->source.path), "problem",
		json_text(part->why[0] ? part->why : NULL), "is_newer",
		part->source.changed_ns > (int64_t)start_ns, "lines", array);
	return object;
}

struct ht_err *source_json_write(FILE *out, const struct calls *calls,
	const struct function_matches *matches, const struct function *callers,
	const struct source_places *places)
{
	struct json_writer json = {.out = out};
	struct part part = {.callers = callers};
	json_t *files = json_array();
	struct ht_err *err = calls_json_head(&json, "heaptap.source/1", calls);
	HT_THEN(err, callers_json_put_matches(&json, "functions", calls, matches));
	while (next_part(&part, places, &err))
		files = json_plus(files, part_json(&part, calls));
	if (err)
		json_decref(files);
	else
		err = json_put(&json, "files", files);
	fputs("}\n", out);
	return err;
}

struct ht_err *source_csv_write(FILE *out, const struct calls *calls,
	const struct function *callers, const struct source_places *places)
{
	struct part part = {.callers = callers};
	struct ht_err *err = NULL;
	fputs("file,line,total,own,text", out);
	calls_csv_bounds_head(out, calls);
	fputc('\n', out);
	while (next_part(&part, places, &err))
		for (size_t i = part.from; i < part.to; i++) {
			const struct function_line *line = &callers->line[i];
			calls_csv_text(out, line->file);
			fputc(',', out);
			calls_csv_number(out, line->line, line->line);
			fprintf(out, ",%" PRIi64 ",%" PRIi64 ",", line->sum.inclusive.value,
				line->sum.own.value);
			calls_csv_text(out, text_of(&part, line->line));
			calls_csv_bounds(out, calls, &line->sum);
			fputc('\n', out);
		}
	return err;
}
