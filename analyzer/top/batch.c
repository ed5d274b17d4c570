/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/batch.h"

#include <errno.h>

#include "analyzer/export/json.h"
#include "analyzer/top/columns.h"

void batch_print(const struct text *text, const struct heading *heading, const struct snapshot *now,
	const struct listing *listing, size_t limit)
{
	struct line line;
	line_begin(&line, text);
	heading_put_title(&line, heading, now);
	line_end(&line);
	line_begin(&line, text);
	heading_put_totals(&line, now, &listing->total);
	line_end(&line);
	line_begin(&line, text);
	heading_put_verdict(&line, heading, now);
	line_end(&line);
	line_begin(&line, text);
	columns_put_titles(&line, now, false);
	line_end(&line);
	for (size_t i = 0; i < listing->count && (!limit || i < limit); i++) {
		line_begin(&line, text);
		columns_put_row(&line, now, &listing->row[i], false);
		line_end(&line);
	}
	putc('\n', text->out);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *put_figures(json_t *object, const struct listing_figures *figures)
{
	if (figures->outstanding_bound_bytes > 0)
		object = json_with(object, "outstanding_bytes_bound95",
			json_number((uint64_t)figures->outstanding_bound_bytes));
	object = json_with(object, "per_minute_bytes", json_integer(figures->per_minute_bytes));
	object = json_with(
		object, "allocated_bytes_per_s", json_number((uint64_t)figures->bytes_per_s));
	object = json_with(object, "calls_per_s", json_number((uint64_t)figures->calls_per_s));
	object = json_with(object, "allocations", json_number(figures->allocations));
	return json_with(object, "temporary", json_number(figures->temporary));
}

static json_t *name_or_null(const struct snapshot *now, uint32_t text)
{
	return json_text(text == SNAPSHOT_NONE ? NULL : snapshot_function(now, text));
}

static json_t *stack_json(const struct snapshot *now, const struct snapshot_row *site)
{
	json_t *stack = json_array();
	for (uint32_t i = 0; i < site->frame_count; i++)
		stack = json_plus(
			stack, json_text(snapshot_function(now, snapshot_frame(now, site, i))));
	return stack;
}

static json_t *row_json(const struct snapshot *now, const struct listing_row *row)
{
	const struct snapshot_row *site = row->site;
	const bool is_function = row->kind == LISTING_FUNCTION;
	json_t *ret = json_object();
	ret = json_with(ret, "function", name_or_null(now, site->function));
	if (!is_function) {
		ret = json_with(ret, "place", json_text(snapshot_place(now, site->function)));
		ret = json_with(ret, "caller", name_or_null(now, site->caller));
		ret = json_with(ret, "script", name_or_null(now, site->script));
	}
	ret = json_with(ret, "outstanding_bytes", json_integer(row->figures.outstanding_bytes));
	ret = put_figures(ret, &row->figures);
	ret = json_with(ret, "oldest_ns",
		json_number_or_null(row->figures.oldest_ns, row->figures.oldest_ns));
	ret = json_with(ret, "growing", json_boolean(row->is_growing));
	ret = json_with(ret, "chains", json_number(site->chains));
	return json_with(ret, "stack", stack_json(now, site));
}

struct ht_err *batch_print_json(FILE *out, const struct heading *heading,
	const struct snapshot *now, const struct listing *listing, size_t limit)
{
	const struct snapshot_figures *figures = &now->figures;
	json_t *rows = json_array(), *whole = json_object();
	for (size_t i = 0; i < listing->count && (!limit || i < limit); i++)
		rows = json_plus(rows, row_json(now, &listing->row[i]));
	whole = json_with(whole, "schema", json_text("heaptap.top/1"));
	whole = json_with(whole, "pid", json_number((uint64_t)heading->pid));
	whole = json_with(whole, "comm", json_text(heading->last.comm));
	whole = json_with(whole, "state", json_text(heading_state(heading)));
	whole = json_with(whole, "time_ns", json_number(figures->time_ns));
	whole = json_with(whole, "events", json_number(heading->last.events));
	whole = json_with(whole, "dropped", json_number(heading->last.dropped));
	whole = json_with(whole, "estimate", json_boolean(figures->is_estimate));
	whole = json_with(whole, "outstanding_bytes", json_number(figures->sums.outstanding_bytes));
	whole = put_figures(whole, &listing->total);
	whole = json_with(
		whole, "rss_bytes", json_number_or_null(figures->has_rss, figures->rss_bytes));
	whole = json_with(whole, "threads", json_number(figures->threads));
	whole = json_with(whole, "sites", json_number(figures->sites));
	whole = json_with(whole, "growing", json_number(figures->growing));
	whole = json_with(whole, "rows", rows);
	struct ht_err *err = NULL;
	if (!whole)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for a table");
	else if (json_dumpf(whole, out, JSON_COMPACT) != 0 || putc('\n', out) == EOF)
		err = ht_err_sys(errno, "cannot write the table");
	json_decref(whole);
	return err;
}
