/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/page.h"
#include "analyzer/views/pauses.h"
#include "analyzer/views/rss.h"

#define SPARK_COLUMNS 24u

/* --- calls and heap --------------------------------------------------------------------------- */

static void label(struct line *line, const struct page *page, const char *name)
{
	line_begin(line, page->text);
	line_put(line, "%s", name);
	line_to(line, 7);
}

static void write_calls(const struct page *page)
{
	const struct view *view = page->view;
	const struct sums *total = &view->total;
	const bool is_sample = view->analysis->cube.sample_bytes != 0;
	const char *mark = is_sample ? "~" : "";
	const uint64_t paused_ns =
		pauses_within(&view->analysis->model, view->from_ns, view->to_ns).sum_ns;
	const double seconds = (double)(view->to_ns - view->from_ns - paused_ns) / 1e9;
	const double rate = seconds > 0 ? (double)total->allocations / seconds : 0;
	struct line line;
	label(&line, page, "calls");
	if (page_is_empty(page)) {
		line_put(&line, view_is_filtered(view)
					? "the options choose no allocation of this window"
				: is_sample ? "the sample has no allocation of this window"
					    : "the process allocated and freed nothing");
		line_end(&line);
		return;
	}
	const bool is_chosen = view_is_filtered(view);
	line_put(&line, "%s%s%s%s", mark, text_count(total->allocations).text,
		is_chosen ? " chosen" : "", is_sample ? "" : " allocations");
	line_put(&line, " (%s%s/s)", mark, text_count((uint64_t)rate).text);
	line_put(&line, " of %s%s", mark, page_bytes(page, total->allocated_bytes).text);
	page_put_bound(page, &line, total, METRIC_ALLOCATED);
	if (!is_sample)
		line_put(&line, ", %s temporary",
			text_percent(total->temporary, total->allocations).text);
	else
		line_put(&line, "; %s samples", text_count(total->samples).text);
	line_end(&line);
}

/* The step of the whole process's timeline that contains the end of a bucket of the view. */
static const struct timeline_step *step_at(const struct page *page, uint32_t bucket)
{
	const struct analysis *analysis = page->view->analysis;
	const struct timeline *timeline = &analysis_whole(analysis)->timeline;
	const uint64_t end_ns = (bucket + 1) * analysis->cube.timeline.step_ns;
	uint64_t at = (end_ns - 1) / timeline->step_ns;
	if (at >= timeline->count)
		at = timeline->count ? timeline->count - 1 : 0;
	return &timeline->step[at];
}

/* The size of the whole heap at the end of a bucket; if unknown, the recorded part. */
static uint64_t held_at(const struct page *page, uint32_t bucket)
{
	const struct heap *heap = &page->view->analysis->heap;
	const struct timeline_step *step = step_at(page, bucket);
	return heap->has_curve ? heap_bytes_at(heap, step->live_bytes, step->before_bytes)
			       : step->live_bytes;
}

/* Events count only requested bytes, so their sum drifts from the allocators' counters: adjust the
 * curve of the whole window so that it ends at the counters' value. */
static void mend_curve(const struct page *page, uint64_t *value, size_t count)
{
	const struct heap *heap = &page->view->analysis->heap;
	if (!count || !page->view->is_whole || !heap->has_curve || !heap->end_known)
		return;
	const double stray = (double)heap->end_bytes - (double)value[count - 1];
	for (size_t i = 0; i < count; i++) {
		const double mended = (double)value[i] + stray * (double)(i + 1) / (double)count;
		value[i] = mended > 0 ? (uint64_t)mended : 0;
	}
}

/* The scale covers at least a twentieth of the value, so that small waves of a large heap look
 * small. */
static void put_curve(struct line *line, const struct page *page)
{
	const struct window window = page->view->window;
	uint64_t value[TIMELINE_STEPS], most = 0, least = UINT64_MAX;
	size_t count = 0;
	for (uint32_t i = window.from; i < window.to && count < TIMELINE_STEPS; i++) {
		value[count++] = held_at(page, i);
	}
	mend_curve(page, value, count);
	for (size_t i = 0; i < count; i++) {
		most = value[i] > most ? value[i] : most;
		least = value[i] < least ? value[i] : least;
	}
	if (least > most - most / 20)
		least = most - most / 20;
	line_put(line, "  ");
	if (count && most && line_left(line) >= SPARK_COLUMNS / 2)
		line_sparkline(line, value, count, least,
			line_left(line) < SPARK_COLUMNS ? line_left(line) : SPARK_COLUMNS);
}

/* "1.5 MiB"; "0 B..3.0 MiB" if the error is not less than the figure. */
static void put_amount(
	struct line *line, const struct page *page, uint64_t bytes, struct heap_range range)
{
	if (!range.is_known)
		line_put(line, "unknown");
	else if (range.is_figure)
		line_put(line, "%s", page_bytes(page, bytes).text);
	else
		line_put(line, "%s..%s", page_bytes(page, range.least_bytes).text,
			page_bytes(page, range.most_bytes).text);
}

/* Puts the bound of a figure of the whole heap that was computed from the window's events. In a
 * sample the error of such a figure is that of the window's growth, or of its peak. */
static void put_bound_of_events(
	struct line *line, const struct page *page, int64_t bytes, enum metric metric)
{
	const struct view *view = page->view;
	if (view_is_filtered(view) || !metric_is_exact(metric, view->is_whole))
		return;
	const struct text_number bound =
		text_bound(page->text, bytes, metric_bound(&view->total, metric));
	if (*bound.text)
		line_put(line, " %s", bound.text);
}

/* The heap at the end, computed from the start and the events. */
static uint64_t end_by_events(const struct page *page)
{
	const struct window window = page->view->window;
	return window.to > window.from ? held_at(page, window.to - 1)
				       : page->view->analysis->heap.start_bytes;
}

static void put_end_by_events(struct line *line, const struct page *page)
{
	const uint64_t bytes = end_by_events(page);
	line_put(line, "~%s", page_bytes(page, bytes).text);
	put_bound_of_events(line, page, (int64_t)bytes, METRIC_GROWTH);
}

static void put_whole_heap(struct line *line, const struct page *page)
{
	const struct heap *heap = &page->view->analysis->heap;
	put_amount(line, page, heap->start_bytes,
		heap->known ? heap_range_of(heap->start_bytes, heap->off_bytes)
			    : (struct heap_range){0});
	line_put(line, " -> ");
	if (heap->end_known)
		put_amount(line, page, heap->end_bytes, heap_end_range(heap));
	else
		put_end_by_events(line, page);
	if (!heap->has_curve)
		return;
	line_put(line, ", peak ");
	put_amount(line, page, heap->peak_bytes, heap_peak_range(heap));
	line_put(line, " at +%s", text_time(heap->peak_time_ns).text);
}

/* For a part of the trace: the heap by the events, at bucket borders. */
static void put_part_of_heap(struct line *line, const struct page *page)
{
	const struct view *view = page->view;
	const uint64_t start = view->window.from ? held_at(page, view->window.from - 1)
						 : view->analysis->heap.start_bytes;
	line_put(line, "~%s -> ", page_bytes(page, start).text);
	put_end_by_events(line, page);
}

/* The recorded blocks, for a trace without a reading of the heap. */
static void put_recorded(struct line *line, const struct page *page)
{
	const struct window window = page->view->window;
	const struct heap *heap = &page->view->analysis->heap;
	const char *mark = page->view->analysis->cube.sample_bytes ? "~" : "";
	uint64_t before = 0, after = 0, peak = 0;
	if (window.to > window.from) {
		before = window.from ? step_at(page, window.from - 1)->live_bytes : 0;
		after = step_at(page, window.to - 1)->live_bytes;
	}
	for (uint32_t i = window.from; i < window.to; i++)
		if (peak < step_at(page, i)->live_max_bytes)
			peak = step_at(page, i)->live_max_bytes;
	const int64_t growth = (int64_t)(after - before), rise = (int64_t)(peak - before);
	line_put(line, "%s%s", mark, page_change(page, growth).text);
	put_bound_of_events(line, page, growth, METRIC_GROWTH);
	line_put(line, " in the window");
	if (heap->end_known)
		line_put(line, "; %s at the end", page_bytes(page, heap->end_bytes).text);
	else {
		line_put(line, ", peak %s%s", mark, page_change(page, rise).text);
		put_bound_of_events(line, page, rise, METRIC_PEAK);
	}
}

/* "paused from +10.0 s to +20.0 s: new allocations were not recorded" */
static void write_pauses(const struct page *page)
{
	const struct view *view = page->view;
	const struct pauses pauses =
		pauses_within(&view->analysis->model, view->from_ns, view->to_ns);
	struct line line;
	if (!pauses.count)
		return;
	label(&line, page, "paused");
	if (pauses.count > 1)
		line_put(&line, "%zu times, %s in all, first ", pauses.count,
			text_time(pauses.sum_ns).text);
	line_put(&line, "from +%s", text_time(pauses.first_begin_ns).text);
	line_put(&line, " to +%s", text_time(pauses.first_end_ns).text);
	line_put(&line, ": new allocations were not recorded");
	line_end(&line);
}

/* "held   5 min 0 s after the window: 12.3 MiB in 1,234 blocks, of 30.1 MiB outstanding" */
static void write_settle(const struct page *page)
{
	const struct view *view = page->view;
	const struct sums *total = &view->total;
	const char *mark = page_mark(page, METRIC_SURVIVORS);
	static const char outstanding[] = " outstanding";
	struct line line;
	if (!view_is_settled(view))
		return;
	label(&line, page, "held");
	line_put(&line, "%s after the window: %s%s",
		text_time(model_settle_ns(&view->analysis->model.settle)).text, mark,
		page_bytes(page, sums_surviving_bytes(total)).text);
	page_put_bound(page, &line, total, METRIC_SURVIVORS);
	line_put(&line, " in %s%s blocks", mark, text_count(sums_surviving_blocks(total)).text);
	line_put(&line, ", of %s%s", mark, page_bytes(page, sums_outstanding_bytes(total)).text);
	if (line_left(&line) >= strlen(outstanding))
		line_put(&line, "%s", outstanding);
	line_end(&line);
}

static void write_heap(const struct page *page)
{
	const struct heap *heap = &page->view->analysis->heap;
	struct line line;
	label(&line, page, "heap");
	/* Events miss the blocks allocated in a pause, but the allocators' counters include them.
	 */
	const bool by_books = heap->known && heap->end_known && page->view->is_whole &&
			      page->view->analysis->model.pause_count;
	if (!heap->has_curve && !by_books)
		put_recorded(&line, page);
	else if (page->view->is_whole)
		put_whole_heap(&line, page);
	else
		put_part_of_heap(&line, page);
	put_curve(&line, page);
	line_end(&line);
}

/* --- resident memory ---------------------------------------------------------------------------
 */

struct rss_part {
	int64_t bytes;
	const char *name;
};

static uint64_t amount(int64_t bytes)
{
	return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

static int compare_parts(const void *a, const void *b)
{
	const uint64_t x = amount(((const struct rss_part *)a)->bytes);
	const uint64_t y = amount(((const struct rss_part *)b)->bytes);
	return (x < y) - (x > y);
}

/* Largest first; leaves out parts below 1 % of the largest. */
static void put_rss_parts(struct line *line, const struct page *page, const struct rss_parts *parts)
{
	struct rss_part part[] = {
		{parts->heap_known ? parts->heap_bytes : 0, "heap"},
		{parts->free_known ? parts->free_bytes : 0, "free in allocator"},
		{parts->other_bytes, parts->heap_known ? "other anonymous" : "anonymous"},
		{parts->file_bytes, "files"},
		{parts->shared_bytes, "shared"},
		{parts->swapped_bytes == INT64_MIN ? INT64_MAX : -parts->swapped_bytes,
			"swapped out"},
	};
	qsort(part, HT_ARRAY_SIZE(part), sizeof(*part), compare_parts);
	for (size_t i = 0; i < HT_ARRAY_SIZE(part); i++) {
		struct text_number change = page_change(page, part[i].bytes);
		const size_t needs = strlen(part[i].name) + strlen(change.text) + 3;
		if (!part[i].bytes || amount(part[i].bytes) < amount(part[0].bytes) / 100)
			break;
		if (i && needs > line_left(line))
			break;
		line_put(line, "%s%s %s", i ? ", " : ": ", part[i].name, change.text);
	}
}

static void write_part_of_rss(const struct page *page)
{
	const struct timeline_memory *memory = page->view->analysis->cube.timeline.memory;
	const struct timeline_memory *first = NULL, *last = NULL;
	for (uint32_t i = page->view->window.from; i < page->view->window.to; i++) {
		if (!memory[i].is_known[MEMORY_RSS])
			continue;
		first = first ? first : &memory[i];
		last = &memory[i];
	}
	if (!first)
		return;
	struct line line;
	label(&line, page, "RSS");
	line_put(&line, "%s -> ", page_bytes(page, first->number[MEMORY_RSS]).text);
	line_put(&line, "%s", page_bytes(page, last->number[MEMORY_RSS]).text);
	line_end(&line);
}

static void write_rss(const struct page *page)
{
	const struct rss_growth rss = rss_growth_of(page->view->analysis);
	struct line line;
	if (!rss.known)
		return;
	if (!page->view->is_whole) {
		write_part_of_rss(page);
		return;
	}
	label(&line, page, "RSS");
	line_put(&line, "%s -> ", page_bytes(page, rss.first_bytes).text);
	line_put(&line, "%s", page_bytes(page, rss.last_bytes).text);
	if (rss.parts.known)
		put_rss_parts(&line, page, &rss.parts);
	else if (model_is_exact(&page->view->analysis->model))
		line_put(&line, "; the trace explains %s",
			page_change(page, rss.explained_bytes).text);
	line_end(&line);
}

void figures_write(const struct page *page)
{
	write_pauses(page);
	write_calls(page);
	write_settle(page);
	write_heap(page);
	write_rss(page);
}
