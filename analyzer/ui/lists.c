/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/chain.h"
#include "analyzer/ui/page.h"
#include "analyzer/views/alike.h"

struct list {
	enum metric metric;
	const char *title;
	struct alike *site; /* the sites shown, in order */
	size_t count;
	size_t others; /* number of sites beyond the limit that have figures */
	int64_t others_value;
};

static const struct list all[] = {
	{.metric = METRIC_SURVIVORS, .title = "Survivors"},
	{.metric = METRIC_OUTSTANDING, .title = "Outstanding"},
	{.metric = METRIC_PEAK, .title = "Peak"},
	{.metric = METRIC_CALLS, .title = "Calls"},
	{.metric = METRIC_TEMPORARY, .title = "Temporary"},
};

/* Finds the sites of the page's rows; with --stacks each row is a site. */
static struct ht_err *find_sites(const struct page *page, struct list *list)
{
	const struct view *view = page->view;
	uint32_t *row = malloc((view->row_count + 1) * sizeof(*row));
	size_t count = 0;
	if (!row)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	for (uint32_t i = 0; i < view->row_count; i++)
		if (metric_value(&view->row[i].sums, list->metric) && page_has_row(page, i))
			row[count++] = i;
	struct ht_err *err = alike_find(
		view, row, count, page->options->shows_stacks, &list->site, &list->count);
	free(row);
	return err;
}

static struct ht_err *find_list(const struct page *page, struct list *list)
{
	const size_t limit = page->options->limit;
	HT_TRY(find_sites(page, list));
	alike_sort(list->site, list->count,
		page->options->has_sort ? page->options->sort : list->metric);
	for (size_t i = limit; limit && i < list->count; i++) {
		list->others++;
		list->others_value += metric_value(&list->site[i].sums, list->metric);
	}
	list->count -= list->others;
	return NULL;
}

/* --- one list ----------------------------------------------------------------------------------
 */

static bool is_sum(enum metric metric)
{
	return metric != METRIC_LIFETIME;
}

/* The total to which the rows' shares add up; for the peak list, the peak. */
static int64_t total_of(const struct page *page, enum metric metric)
{
	return metric_value(&page->view->total, metric);
}

/* Writes "Peak: what it is (1.5 MiB)"; for a list that equals an earlier one, "Peak: 1.5 MiB, of
 * the same sites in the same order as outstanding". */
static void write_title(
	const struct page *page, const struct list *list, const struct list *earlier)
{
	const enum metric metric = list->metric;
	const struct text_number value = page_value(page, metric, total_of(page, metric));
	const struct text_number total = page_marked(page, metric, value);
	struct line line;
	fputc('\n', page->text->out);
	line_begin(&line, page->text);
	line_styled(&line, TEXT_BOLD, "%s", list->title);
	if (earlier)
		line_put(&line, ": %s, of the same sites in the same order as %s", total.text,
			metric_info(earlier->metric)->name);
	else
		line_put(&line, ": %s", metric_info(metric)->title);
	if (!earlier && is_sum(metric))
		line_put(&line, " (%s)", total.text);
	line_end(&line);
}

/* Title of the column after the share, by metric; NULL: no such column. */
static const char *const third[METRIC_COUNT] = {
	[METRIC_OUTSTANDING] = "blocks",
	[METRIC_SURVIVORS] = "blocks",
	[METRIC_CALLS] = "bytes",
	[METRIC_TEMPORARY] = "bytes",
	[METRIC_ALLOCATED] = "calls",
	[METRIC_FREED] = "calls",
	[METRIC_LIFETIME] = "calls",
};

static void put_third(
	struct line *line, const struct page *page, enum metric metric, const char *text)
{
	const bool is_bytes = third[metric] && strcmp(third[metric], "bytes") == 0;
	if (third[metric])
		line_right(line, text, is_bytes && page->options->is_exact ? 18 : 12);
}

static struct text_number third_of(
	const struct page *page, enum metric metric, const struct sums *sums)
{
	if (metric == METRIC_OUTSTANDING)
		return page_marked(page, metric, text_count(sums_outstanding_blocks(sums)));
	if (metric == METRIC_SURVIVORS)
		return page_marked(page, metric, text_count(sums_surviving_blocks(sums)));
	return metric == METRIC_CALLS || metric == METRIC_TEMPORARY
		       ? page_bytes(page, sums->allocated_bytes)
		       : text_count(sums->allocations);
}

/* "   11.9 MiB  78.8 %      6,112 blocks  " */
static void put_figures(
	struct line *line, const struct page *page, enum metric metric, const struct sums *sums)
{
	const int64_t value = metric_value(sums, metric), total = total_of(page, metric);
	const bool has_share = is_sum(metric) && total > 0 && value >= 0;
	line_right(line, page_marked(page, metric, page_value(page, metric, value)).text,
		page->options->is_exact ? 18 : 12);
	line_right(line, has_share ? text_percent((uint64_t)value, (uint64_t)total).text : "", 9);
	put_third(line, page, metric, third_of(page, metric, sums).text);
	line_put(line, "  ");
}

/* Prints the sentence with the reason for a site's class. */
static void write_sentence(const struct page *page, const struct row *row)
{
	for (size_t i = 0; i < page->suspects.count; i++) {
		const struct suspects_entry *entry = &page->suspects.entry[i];
		for (size_t k = 0; k < entry->chains; k++)
			if (&page->view->row[page->suspects.member[entry->first + k]] == row)
				line_wrap(page->text, "    ", "      ",
					suspects_row_suspect(entry, k)->text, 0);
	}
}

static void write_entry(const struct page *page, enum metric metric, const struct alike *site)
{
	const struct row *row = &page->view->row[site->row];
	struct line line;
	line_begin(&line, page->text);
	put_figures(&line, page, metric, &site->sums);
	if (page->view->analysis->cube.sample_bytes) {
		const struct text_number bound = text_bound(page->text,
			metric_value(&site->sums, metric), metric_bound(&site->sums, metric));
		line_right(&line, bound.text, TEXT_BOUND_COLUMNS - 2);
		line_put(&line, "  ");
	}
	/* The chains of one site differ after the first caller. */
	chain_put(&line, page->view, row->node, false, site->chains > 1 ? 1 : CHAIN_CALLERS);
	line_end(&line);
	if (!page->options->shows_stacks)
		return;
	if (metric == (view_is_settled(page->view) ? METRIC_SURVIVORS : METRIC_OUTSTANDING))
		write_sentence(page, row);
	chain_write(page->text, page->view, row->node);
}

static void write_rest(const struct page *page, const struct list *list)
{
	struct line line;
	if (!list->others)
		return;
	line_begin(&line, page->text);
	struct text_number value = page_value(page, list->metric, list->others_value);
	if (is_sum(list->metric))
		line_right(&line, value.text, page->options->is_exact ? 18 : 12);
	line_put(&line, "  in %s other %s; --limit 0 shows all", text_count(list->others).text,
		list->others == 1 ? "site" : "sites");
	line_end(&line);
}

static void write_columns(const struct page *page, enum metric metric)
{
	struct line line;
	line_begin(&line, page->text);
	line_right(&line, metric_info(metric)->name, page->options->is_exact ? 18 : 12);
	line_right(&line, is_sum(metric) ? "share" : "", 9);
	put_third(&line, page, metric, third[metric]);
	if (page->view->analysis->cube.sample_bytes)
		line_right(&line, "bound", TEXT_BOUND_COLUMNS);
	line_styled(&line, TEXT_DIM, "  function <- callers");
	line_end(&line);
}

static void write_list(const struct page *page, const struct list *list)
{
	write_title(page, list, NULL);
	if (!list->count) {
		fputs("    none\n", page->text->out);
		return;
	}
	write_columns(page, list->metric);
	for (size_t i = 0; i < list->count; i++)
		write_entry(page, list->metric, &list->site[i]);
	write_rest(page, list);
}

/* --- all lists ---------------------------------------------------------------------------------
 */

/* Number of sites with at least 1 % of the total; `list` is sorted by the metric of the total. */
static size_t sites_that_count(const struct page *page, const struct list *list)
{
	const int64_t total = total_of(page, list->metric);
	size_t count = 0;
	while (count < list->count &&
		metric_value(&list->site[count].sums, list->metric) >= total / 100)
		count++;
	return count;
}

/* Whether two lists have the same sites in the same order, ignoring those below 1 %. */
static bool reads_the_same(const struct page *page, const struct list *a, const struct list *b)
{
	const size_t count = sites_that_count(page, a);
	if (!count || count != sites_that_count(page, b))
		return false;
	for (size_t i = 0; i < count; i++)
		if (a->site[i].row != b->site[i].row)
			return false;
	return true;
}

static struct ht_err *write_four(const struct page *page)
{
	struct list list[HT_ARRAY_SIZE(all)];
	const bool is_sample = page->view->analysis->cube.sample_bytes != 0;
	const bool has_sort = page->options->has_sort;
	struct ht_err *err = NULL;
	size_t count = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(all) && !err; i++) {
		const struct list *same = NULL;
		/* A sample lacks most allocations, so it does not show whether one was temporary.
		 */
		if (is_sample && all[i].metric == METRIC_TEMPORARY)
			continue;
		if (all[i].metric == METRIC_SURVIVORS && !view_is_settled(page->view))
			continue;
		struct list *one = &list[count++];
		*one = all[i];
		err = find_list(page, one);
		for (size_t k = 0; k + 1 < count && !err && !same && !has_sort; k++)
			same = reads_the_same(page, &list[k], one) ? &list[k] : NULL;
		if (err)
			break;
		if (same)
			write_title(page, one, same);
		else
			write_list(page, one);
	}
	for (size_t i = 0; i < count; i++)
		free(list[i].site);
	return err;
}

struct ht_err *lists_write(const struct page *page)
{
	struct list one = {.metric = page->options->metric};
	char title[32];
	if (!page->options->has_metric)
		return write_four(page);
	snprintf(title, sizeof(title), "%s", metric_info(one.metric)->name);
	title[0] = (char)(title[0] - 'a' + 'A');
	one.title = title;
	struct ht_err *err = find_list(page, &one);
	if (!err)
		write_list(page, &one);
	free(one.site);
	return err;
}
