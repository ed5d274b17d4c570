/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/page.h"

bool page_is_empty(const struct page *page)
{
	const struct view *view = page->view;
	if (view->total.samples || view->total.live_blocks)
		return false;
	return view_is_filtered(view) || (!view->analysis->cube.before_frees &&
						 !model_dropped_events(&view->analysis->model));
}

bool page_has_row(const struct page *page, uint32_t row)
{
	return !page->options->has_class || page->class_of_row[row] == page->options->of_class;
}

struct text_number page_bytes(const struct page *page, uint64_t bytes)
{
	struct text_number ret;
	if (!page->options->is_exact)
		return text_bytes(bytes);
	snprintf(ret.text, sizeof(ret.text), "%.30s B", text_count(bytes).text);
	return ret;
}

struct text_number page_change(const struct page *page, int64_t bytes)
{
	struct text_number ret;
	const uint64_t amount = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
	snprintf(ret.text, sizeof(ret.text), "%c%.36s", bytes < 0 ? '-' : '+',
		page_bytes(page, amount).text);
	return ret;
}

struct text_number page_value(const struct page *page, enum metric metric, int64_t value)
{
	const struct metric_info *info = metric_info(metric);
	const uint64_t amount = value < 0 ? 0 : (uint64_t)value;
	switch (info->unit) {
	case METRIC_COUNT_OF_BLOCKS:
		return text_count(amount);
	case METRIC_TIME_NS:
		return text_time(amount);
	case METRIC_BYTES:
		break;
	}
	return info->is_signed ? page_change(page, value) : page_bytes(page, amount);
}

void page_put_bound(
	const struct page *page, struct line *line, const struct sums *sums, enum metric metric)
{
	const struct text_number bound =
		text_bound(page->text, metric_value(sums, metric), metric_bound(sums, metric));
	if (*bound.text)
		line_put(line, " %s", bound.text);
}

const char *page_mark(const struct page *page, enum metric metric)
{
	const bool is_exact = metric_is_exact(metric, page->view->is_whole) &&
			      !page->view->analysis->cube.sample_bytes;
	return is_exact ? "" : "~";
}

struct text_number page_marked(
	const struct page *page, enum metric metric, struct text_number figure)
{
	struct text_number ret;
	snprintf(ret.text, sizeof(ret.text), "%s%.38s", page_mark(page, metric), figure.text);
	return ret;
}
