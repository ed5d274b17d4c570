/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "analyzer/ui/chain.h"
#include "analyzer/ui/page.h"
#include "analyzer/views/parts.h"

#define BAR_COLUMNS 24u

struct table {
	const struct page *page;
	const struct breakdown *breakdown;
	enum metric metric;
	int64_t total, most;
};

static const char *const title[] = {
	[BREAKDOWN_FUNCTION] = "function",
	[BREAKDOWN_LINE] = "source line",
	[BREAKDOWN_ADDRESS] = "address of the code",
	[BREAKDOWN_MODULE] = "module",
	[BREAKDOWN_NAMESPACE] = "namespace, crate or npm package",
	[BREAKDOWN_THREAD] = "thread",
	[BREAKDOWN_SIZE] = "requested size",
	[BREAKDOWN_LIFETIME] = "lifetime",
};

/* Title of the column of names, by kind of table. */
static const char *const column[] = {
	[BREAKDOWN_FUNCTION] = "function  file",
	[BREAKDOWN_LINE] = "function  file:line",
	[BREAKDOWN_ADDRESS] = "function  file  offset",
	[BREAKDOWN_MODULE] = "module",
	[BREAKDOWN_NAMESPACE] = "namespace",
	[BREAKDOWN_THREAD] = "tid     name",
	[BREAKDOWN_SIZE] = "",
	[BREAKDOWN_LIFETIME] = "",
};

static bool has_bars(const struct table *table)
{
	return table->breakdown->by == BREAKDOWN_SIZE || table->breakdown->by == BREAKDOWN_LIFETIME;
}

static size_t figure_columns(const struct table *table)
{
	return table->page->options->is_exact ? 17 : 11;
}

static void put_value(struct line *line, const struct table *table, int64_t value)
{
	const struct text_number figure = page_value(table->page, table->metric, value);
	line_right(
		line, page_marked(table->page, table->metric, figure).text, figure_columns(table));
}

static void put_share(struct line *line, const struct table *table, int64_t value)
{
	const bool is_known = value >= 0 && table->total > 0 && table->metric != METRIC_LIFETIME;
	line_right(line,
		is_known ? text_percent((uint64_t)value, (uint64_t)table->total).text : "-", 8);
}

/* --- names of rows ---------------------------------------------------------------------------- */

static void put_thread(struct line *line, const struct table *table, uint32_t thread)
{
	const struct model *model = &table->page->view->analysis->model;
	bool is_assumed = false;
	if (thread >= model->threads.count) {
		line_put(line, "(unknown thread)");
		return;
	}
	const char *name = threads_shown_name(&model->threads, thread, model->comm, &is_assumed);
	line_put(line, "%-8" PRIu32, model->threads.thread[thread].tid);
	line_foreign(line, name ? name : "?", 32);
	if (is_assumed)
		line_put(line, "  (assumed)");
}

static void put_frame(struct line *line, const struct table *table, const struct breakdown_row *row)
{
	const struct view *view = table->page->view;
	const struct frame *frame = &view->frames.frame[row->key];
	const size_t left = line_left(line);
	char place[64] = "";
	if (table->breakdown->by == BREAKDOWN_ADDRESS && frame->module != MODULES_NONE)
		snprintf(place, sizeof(place), "  +0x%" PRIx64, frame->offset);
	else if (table->breakdown->by == BREAKDOWN_LINE && frame->line)
		snprintf(place, sizeof(place), ":%" PRIu32, frame->line);
	const char *file = strings_base_name(frame->file);
	size_t file_columns = file ? text_columns(file) : 0;
	if (file_columns > left / 3)
		file_columns = left / 3;
	const size_t behind = strlen(place) + file_columns + (file ? 2 : 0);
	chain_put_frame(line, view, frame, left > behind ? left - behind : 8);
	if (file) {
		line_put(line, "  ");
		line_foreign_styled(line, TEXT_DIM, file, file_columns);
	}
	line_styled(line, TEXT_DIM, "%s", place);
}

static void put_name(struct line *line, const struct table *table, const struct breakdown_row *row)
{
	if (table->breakdown->by == BREAKDOWN_THREAD && row->key != BREAKDOWN_OTHER)
		put_thread(line, table, row->key);
	else if (row->key == BREAKDOWN_NO_STACK)
		line_put(line, "(no stack)");
	else if (row->key == BREAKDOWN_OTHER)
		line_put(line, "(folded: stacks that allocated little)");
	else if (row->name)
		line_foreign(line, row->name, line_left(line));
	else
		put_frame(line, table, row);
}

/* Puts the smallest size of a class, as in "16 B ..". */
static void put_size(struct line *line, const struct table *table, uint32_t key)
{
	char range[64] = "(folded)   ";
	if (key != BREAKDOWN_OTHER)
		snprintf(range, sizeof(range), "%s%s",
			page_bytes(table->page, parts_size_from(key)).text,
			key > 1 ? " .." : "   ");
	line_right(line, range, figure_columns(table) + 3);
}

static void put_life(struct line *line, uint32_t key)
{
	char range[64] = "not freed   ";
	if (!key)
		snprintf(range, sizeof(range), "below %s   ",
			text_time(breakdown_life_to(key) + 1).text);
	else if (key != BREAKDOWN_LIFETIME_NEVER)
		snprintf(range, sizeof(range), "%s ..", text_time(breakdown_life_from(key)).text);
	line_right(line, range, 16);
}

/* Prints the bound of a figure, right-aligned; nothing if the capture is no sample. */
static void put_bound(struct line *line, const struct table *table, const struct sums *sums)
{
	if (table->page->view->analysis->cube.sample_bytes)
		line_right(line,
			text_bound(table->page->text, metric_value(sums, table->metric),
				metric_bound(sums, table->metric))
				.text,
			TEXT_BOUND_COLUMNS);
}

/* --- rows --------------------------------------------------------------------------------------
 */

static void put_bar(struct line *line, const struct table *table, int64_t value)
{
	const double share = table->most > 0 && value > 0 ? (double)value / (double)table->most : 0;
	const size_t room = line_left(line) > 2 ? line_left(line) - 2 : 0;
	const size_t bar =
		(size_t)(share * (double)(room < BAR_COLUMNS ? room : BAR_COLUMNS) + 0.5);
	line_put(line, "  ");
	for (size_t i = 0; i < bar; i++)
		line_put(line, "%s", table->page->text->has_utf8 ? "\u2587" : "#");
}

static void write_bar_row(const struct table *table, const struct breakdown_row *row)
{
	const int64_t value = metric_value(&row->own, table->metric);
	char count[64];
	struct line line;
	line_begin(&line, table->page->text);
	if (table->breakdown->by == BREAKDOWN_SIZE)
		put_size(&line, table, row->key);
	else
		put_life(&line, row->key);
	snprintf(count, sizeof(count), "%s%s", table->breakdown->is_estimate ? "~" : "",
		text_count(row->own.allocations).text);
	line_right(&line, count, 14);
	if (table->metric != METRIC_CALLS) {
		line_put(&line, " ");
		put_value(&line, table, value);
	}
	put_share(&line, table, value);
	put_bound(&line, table, &row->own);
	put_bar(&line, table, value);
	line_end(&line);
}

static void write_row(const struct table *table, const struct breakdown_row *row)
{
	const int64_t own = metric_value(&row->own, table->metric);
	const int64_t inclusive = metric_value(&row->inclusive, table->metric);
	struct line line;
	line_begin(&line, table->page->text);
	put_value(&line, table, own);
	put_share(&line, table, own);
	if (table->breakdown->has_inclusive) {
		line_put(&line, "  ");
		put_value(&line, table, inclusive);
		put_share(&line, table, inclusive);
		put_bound(&line, table, &row->inclusive);
	} else {
		put_bound(&line, table, &row->own);
		line_right(&line, text_count(row->own.allocations).text, 14);
		line_right(&line, page_bytes(table->page, row->own.allocated_bytes).text,
			figure_columns(table));
	}
	line_put(&line, "  ");
	put_name(&line, table, row);
	line_end(&line);
}

static void write_head(const struct table *table)
{
	const struct metric_info *info = metric_info(table->metric);
	const size_t columns = figure_columns(table);
	const bool is_sample = table->page->view->analysis->cube.sample_bytes != 0;
	const char *bound = is_sample ? "bound" : "";
	const size_t bound_columns = is_sample ? TEXT_BOUND_COLUMNS : 0;
	struct line line;
	fputc('\n', table->page->text->out);
	line_begin(&line, table->page->text);
	line_styled(&line, TEXT_BOLD, "By %s", title[table->breakdown->by]);
	const char *also = table->breakdown->is_estimate ? "; lifetimes are estimates" : "";
	const bool fits = line_left(&line) >= strlen(info->title) + strlen(also) + 2;
	line_put(&line, ": %s%s", fits ? info->title : info->name, also);
	line_end(&line);
	line_begin(&line, table->page->text);
	if (has_bars(table)) {
		line_right(&line, table->breakdown->by == BREAKDOWN_SIZE ? "size   " : "life   ",
			table->breakdown->by == BREAKDOWN_SIZE ? columns + 3 : 16);
		line_right(&line, "allocations", 14);
		if (table->metric != METRIC_CALLS)
			line_right(&line, info->name, columns + 1);
		line_right(&line, "share", 8);
		line_right(&line, bound, bound_columns);
	} else if (table->breakdown->has_inclusive) {
		line_right(&line, "own", columns);
		line_right(&line, "share", 8);
		line_right(&line, "with callees", columns + 2);
		line_right(&line, "share", 8);
		line_right(&line, bound, bound_columns);
		line_put(&line, "  %s", column[table->breakdown->by]);
	} else {
		line_right(&line, info->name, columns);
		line_right(&line, "share", 8);
		line_right(&line, bound, bound_columns);
		line_right(&line, "allocations", 14);
		line_right(&line, "allocated", columns);
		line_put(&line, "  %s", column[table->breakdown->by]);
	}
	line_end(&line);
}

static void write_table(const struct table *table)
{
	const struct breakdown *breakdown = table->breakdown;
	const size_t limit = has_bars(table) ? 0 : table->page->options->limit;
	size_t shown = 0;
	write_head(table);
	for (; shown < breakdown->count && (!limit || shown < limit); shown++) {
		if (has_bars(table))
			write_bar_row(table, &breakdown->row[shown]);
		else
			write_row(table, &breakdown->row[shown]);
	}
	if (shown == 0)
		fputs("    nothing\n", table->page->text->out);
	if (shown < breakdown->count)
		line_print(table->page->text, "    %zu more %s; --limit 0 shows all",
			breakdown->count - shown, breakdown->count - shown == 1 ? "row" : "rows");
}

struct ht_err *breakdown_text_write(const struct page *page)
{
	const struct page_options *options = page->options;
	struct breakdown breakdown;
	struct table table = {.page = page, .breakdown = &breakdown};
	const bool is_bars = options->by == BREAKDOWN_SIZE || options->by == BREAKDOWN_LIFETIME;
	table.metric = options->has_metric ? options->metric
		       : is_bars	   ? METRIC_CALLS
					   : METRIC_OUTSTANDING;
	HT_TRY(breakdown_find(page->view, options->by,
		options->has_sort ? options->sort : table.metric, false, &breakdown));
	table.total = metric_value(&page->view->total, table.metric);
	for (size_t i = 0; i < breakdown.count; i++) {
		const int64_t value = metric_value(&breakdown.row[i].own, table.metric);
		table.most = value > table.most ? value : table.most;
	}
	write_table(&table);
	breakdown_deinit(&breakdown);
	return NULL;
}
