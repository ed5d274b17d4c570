/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/callers_json.h"

#include <inttypes.h>

#include "analyzer/export/calls_json.h"

struct ht_err *callers_json_put_matches(struct json_writer *json, const char *name,
	const struct calls *calls, const struct function_matches *matches)
{
	json_t *array = json_array();
	for (size_t i = 0; i < matches->count; i++) {
		const struct function_match *match = &matches->match[i];
		json_t *object = calls_json_group(calls, match->group);
		array = json_plus(array, calls_json_sum(object, calls, &match->sum));
	}
	return json_put(json, name, array);
}

struct ht_err *callers_json_write_matches(FILE *out, const char *schema, const struct calls *calls,
	const struct function_matches *matches)
{
	struct json_writer json = {.out = out};
	struct ht_err *err = calls_json_head(&json, schema, calls);
	HT_THEN(err, callers_json_put_matches(&json, "matches", calls, matches));
	fputs("}\n", out);
	return err;
}

static json_t *entry_json(const struct calls *calls, const struct function_entry *entry)
{
	json_t *object = calls_json_group(calls, entry->group);
	object = json_with(object, "value", json_integer(entry->figure.value));
	return calls->is_sample ? json_with(object, "value_bound95",
					  json_integer(figure_bound(entry->figure)))
				: object;
}

static struct ht_err *put_entries(struct json_writer *json, const char *name,
	const struct calls *calls, const struct function_entry *entry, size_t count)
{
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++)
		array = json_plus(array, entry_json(calls, &entry[i]));
	return json_put(json, name, array);
}

static struct ht_err *put_lines(
	struct json_writer *json, const struct calls *calls, const struct function *callers)
{
	json_t *array = json_array();
	for (size_t i = 0; i < callers->line_count; i++) {
		const struct function_line *line = &callers->line[i];
		json_t *object = json_pack("{so so}", "file", json_text(line->file), "line",
			json_number_or_null(line->line, line->line));
		array = json_plus(array, calls_json_sum(object, calls, &line->sum));
	}
	return json_put(json, "lines", array);
}

static struct ht_err *put_figures(
	struct json_writer *json, const struct calls *calls, const struct function *callers)
{
	const struct calls_sum *sum = &callers->sum;
	const struct {
		const char *name, *bound;
		struct figure value;
	} figure[] = {
		{"inclusive", "inclusive_bound95", sum->inclusive},
		{"own", "own_bound95", sum->own},
		{"outermost", "outermost_bound95", callers->outermost},
		{"recursive", "recursive_bound95", callers->recursive},
	};
	struct ht_err *err = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(figure) && !err; i++) {
		err = json_put(json, figure[i].name, json_integer(figure[i].value.value));
		if (!err && calls->is_sample)
			err = json_put(
				json, figure[i].bound, json_integer(figure_bound(figure[i].value)));
	}
	return err;
}

struct ht_err *callers_json_write(FILE *out, const struct calls *calls,
	const struct function_matches *matches, const struct function *callers)
{
	struct json_writer json = {.out = out};
	struct ht_err *err = calls_json_head(&json, "heaptap.callers/1", calls);
	HT_THEN(err, callers_json_put_matches(&json, "functions", calls, matches));
	HT_THEN(err, put_figures(&json, calls, callers));
	HT_THEN(err, put_entries(&json, "callers", calls, callers->caller, callers->caller_count));
	HT_THEN(err, put_entries(&json, "callees", calls, callers->callee, callers->callee_count));
	HT_THEN(err, put_lines(&json, calls, callers));
	fputs("}\n", out);
	return err;
}

static void put_entries_csv(FILE *out, const char *kind, const struct calls *calls,
	const struct function_entry *entry, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%s,%" PRIi64 ",,", kind, entry[i].figure.value);
		calls_csv_group(out, calls, entry[i].group);
		if (calls->is_sample)
			fprintf(out, ",%" PRIi64 ",", figure_bound(entry[i].figure));
		fputc('\n', out);
	}
}

void callers_csv_write(FILE *out, const struct calls *calls, const struct function_matches *matches,
	const struct function *callers)
{
	fputs("kind,total,own,function,file,line,module", out);
	calls_csv_bounds_head(out, calls);
	fputc('\n', out);
	for (size_t i = 0; i < matches->count; i++) {
		const struct function_match *match = &matches->match[i];
		fprintf(out, "function,%" PRIi64 ",%" PRIi64 ",", match->sum.inclusive.value,
			match->sum.own.value);
		calls_csv_group(out, calls, match->group);
		calls_csv_bounds(out, calls, &match->sum);
		fputc('\n', out);
	}
	put_entries_csv(out, "caller", calls, callers->caller, callers->caller_count);
	put_entries_csv(out, "callee", calls, callers->callee, callers->callee_count);
	for (size_t i = 0; i < callers->line_count; i++) {
		const struct function_line *line = &callers->line[i];
		fprintf(out, "line,%" PRIi64 ",%" PRIi64 ",,", line->sum.inclusive.value,
			line->sum.own.value);
		calls_csv_text(out, line->file);
		fputc(',', out);
		calls_csv_number(out, line->line, line->line);
		fputc(',', out);
		calls_csv_bounds(out, calls, &line->sum);
		fputc('\n', out);
	}
}
