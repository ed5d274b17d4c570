/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/compare_json.h"

#include "analyzer/export/csv_text.h"
#include "analyzer/export/json.h"
#include "analyzer/export/names.h"
#include "analyzer/export/stacks_json.h"

static const struct frame *leaf_of(const struct compare *compare, const struct compare_entry *entry)
{
	const struct view *view = compare->view[entry->view];
	return names_frame_of(view, view->row[entry->row].node);
}

/* The functions of an entry's chain, innermost first. */
static json_t *chain_json(const struct compare *compare, const struct compare_entry *entry)
{
	const struct view *view = compare->view[entry->view];
	json_t *array = json_array();
	for (uint32_t at = view->row[entry->row].node; at; at = view->tree.node[at].parent) {
		const struct frame *frame = names_frame_of(view, at);
		array = json_plus(array, json_text(frame ? frame->function : NULL));
	}
	return array;
}

static const char *bound_key(enum metric metric)
{
	return compare_is_per_minute(metric) ? "per_minute_bound95" : "value_bound95";
}

static double entry_difference_bound(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	return compare_difference_bound(compare_bound(compare, entry, 0, metric),
		compare_bound(compare, entry, compare->view_count - 1, metric));
}

static const char *figure_key(enum metric metric)
{
	return compare_is_per_minute(metric) ? "per_minute" : "value";
}

/* Adds the bounds of an entry's figures, and of the difference between the first and the last. */
static json_t *with_bounds(json_t *object, const struct compare *compare,
	const struct compare_entry *entry, enum metric metric)
{
	json_t *bounds = json_array();
	for (uint32_t i = 0; i < compare->view_count; i++)
		bounds = json_plus(bounds, json_real(compare_bound(compare, entry, i, metric)));
	object = json_with(object, bound_key(metric), bounds);
	return json_with(object, "difference_bound95",
		json_real(entry_difference_bound(compare, entry, metric)));
}

static json_t *entry_json(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	const struct frame *leaf = leaf_of(compare, entry);
	json_t *rates = json_array(), *sums = json_array();
	for (uint32_t i = 0; i < compare->view_count; i++) {
		rates = json_plus(rates, json_real(compare_rate(compare, entry, i, metric)));
		sums = json_plus(
			sums, stacks_json_sums(compare->view[i], compare_sums(compare, entry, i)));
	}
	json_t *object = json_pack("{ss so so so so so so}", "change",
		compare_change_name(compare_change_of(compare, entry, metric)), figure_key(metric),
		rates, "function", json_text(leaf ? leaf->function : NULL), "file",
		json_text(leaf ? leaf->file : NULL), "line",
		json_number_or_null(leaf && leaf->line, leaf ? leaf->line : 0), "stack",
		chain_json(compare, entry), "sums", sums);
	return compare_is_sample(compare) ? with_bounds(object, compare, entry, metric) : object;
}

json_t *compare_json_traces(const struct compare *compare, const char *const *path)
{
	json_t *array = json_array();
	for (uint32_t i = 0; i < compare->view_count; i++) {
		const struct view *view = compare->view[i];
		const struct model *model = &view->analysis->model;
		array = json_plus(array,
			json_pack("{so so so so so so so}", "path", json_text(path[i]), "comm",
				json_text(model->comm), "pid", json_number(model->target.pid),
				"start_unix_ns", json_number(model->capture.start_unix_ns),
				"from_ns", json_number(view->from_ns), "to_ns",
				json_number(view->to_ns), "totals",
				stacks_json_sums(view, &view->total)));
	}
	return array;
}

static json_t *traces_json(
	const struct compare *compare, const char *const *path, enum metric metric)
{
	json_t *array = compare_json_traces(compare, path), *trace;
	size_t i;
	json_array_foreach(array, i, trace)
	{
		json_t *total = json_real(compare_rate(compare, NULL, (uint32_t)i, metric));
		const double bound = compare_bound(compare, NULL, (uint32_t)i, metric);
		if (json_object_set_new(trace, figure_key(metric), total) < 0 ||
			(compare_is_sample(compare) && json_object_set_new(trace, bound_key(metric),
							       json_real(bound)) < 0)) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

struct ht_err *compare_json_write(FILE *out, const struct compare *compare, const char *const *path,
	enum metric metric, size_t limit)
{
	struct json_writer writer = {.out = out};
	struct ht_err *err = json_put(&writer, "schema", json_string("heaptap.compare/1"));
	HT_THEN(err, json_put(&writer, "metric", json_string(metric_info(metric)->name)));
	HT_THEN(err, json_put(&writer, "traces", traces_json(compare, path, metric)));
	if (!err && compare_is_sample(compare))
		err = json_put(&writer, "total_difference_bound95",
			json_real(compare_difference_bound(compare_bound(compare, NULL, 0, metric),
				compare_bound(compare, NULL, compare->view_count - 1, metric))));
	HT_THEN(err, json_put(&writer, "sites_total", json_number(compare->count)));
	json_begin_array(&writer, "sites");
	for (size_t i = 0; i < compare->count && !err && (!limit || i < limit); i++)
		err = json_put_element(&writer, entry_json(compare, &compare->entry[i], metric));
	json_end_array(&writer);
	fputs("}\n", out);
	return err;
}

static void put_bounds_head(FILE *out, const struct compare *compare, enum metric metric)
{
	if (!compare_is_sample(compare))
		return;
	for (uint32_t i = 0; i < compare->view_count; i++)
		fprintf(out, ",%s_%s_%u_bound95", metric_info(metric)->name, figure_key(metric),
			i + 1);
	fputs(",difference_bound95", out);
}

static void put_bounds(FILE *out, const struct compare *compare, const struct compare_entry *entry,
	enum metric metric)
{
	if (!compare_is_sample(compare))
		return;
	for (uint32_t i = 0; i < compare->view_count; i++)
		fprintf(out, ",%.1f", compare_bound(compare, entry, i, metric));
	fprintf(out, ",%.1f", entry_difference_bound(compare, entry, metric));
}

void compare_csv_write(FILE *out, const struct compare *compare, enum metric metric, size_t limit)
{
	fputs("change", out);
	for (uint32_t i = 0; i < compare->view_count; i++)
		fprintf(out, ",%s_%s_%u", metric_info(metric)->name, figure_key(metric), i + 1);
	fputs(",function,file,line", out);
	put_bounds_head(out, compare, metric);
	fputs("\r\n", out);
	for (size_t i = 0; i < compare->count && (!limit || i < limit); i++) {
		const struct compare_entry *entry = &compare->entry[i];
		const struct frame *leaf = leaf_of(compare, entry);
		fputs(compare_change_name(compare_change_of(compare, entry, metric)), out);
		for (uint32_t k = 0; k < compare->view_count; k++)
			fprintf(out, ",%.1f", compare_rate(compare, entry, k, metric));
		fputc(',', out);
		csv_put_text(out, leaf ? leaf->function : NULL);
		fputc(',', out);
		csv_put_text(out, leaf ? leaf->file : NULL);
		fprintf(out, ",%u", leaf ? leaf->line : 0);
		put_bounds(out, compare, entry, metric);
		fputs("\r\n", out);
	}
}
