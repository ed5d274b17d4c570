/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/report_tables.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/ui/line.h"
#include "analyzer/views/parts.h"

#define THREADS_SHOWN 10u
#define BAR_WIDTH     30u

static bool is_sample(const struct view *view)
{
	return view->analysis->cube.sample_bytes != 0;
}

/* Puts a column with the bound of a figure at 95 %; no column if the capture is no sample. */
static void put_bound(
	struct line *line, const struct view *view, const struct sums *sums, enum metric metric)
{
	const struct text_number bound =
		text_bound(line->text, metric_value(sums, metric), metric_bound(sums, metric));
	if (is_sample(view))
		line_right(line, bound.text, TEXT_BOUND_COLUMNS);
}

static void write_size(
	const struct text *text, const struct view *view, const struct part *part, uint64_t most)
{
	const unsigned width = BAR_WIDTH - (is_sample(view) ? 2 * TEXT_BOUND_COLUMNS : 0);
	const struct sums *sums = &part->sums;
	const bool is_folded = part->key == PARTS_FOLDED;
	const uint64_t from = is_folded ? 0 : parts_size_from(part->key);
	const size_t bar = (size_t)((double)sums->allocations / (double)most * width + 0.5);
	struct line line;
	line_begin(&line, text);
	line_put(&line, "    %10s%s  %14s", is_folded ? "(folded)" : text_bytes(from).text,
		from > 1 ? ".." : "  ", text_count(sums->allocations).text);
	put_bound(&line, view, sums, METRIC_CALLS);
	line_put(&line, "  %10s", text_bytes(sums_outstanding_bytes(sums)).text);
	put_bound(&line, view, sums, METRIC_OUTSTANDING);
	line_put(&line, "  ");
	for (size_t i = 0; i < bar; i++)
		line_put(&line, "%s", text->has_utf8 ? "\u2587" : "#");
	line_end(&line);
}

static struct ht_err *write_sizes(const struct text *text, const struct view *view)
{
	struct part *part;
	size_t count;
	uint64_t most = 1;
	HT_TRY(parts_find(view, PARTS_SIZE, &part, &count));
	for (size_t i = 0; i < count; i++)
		if (part[i].sums.allocations > most)
			most = part[i].sums.allocations;
	line_heading(text, "Sizes (requested bytes: allocations, outstanding)");
	for (size_t i = 0; i < count; i++)
		write_size(text, view, &part[i], most);
	free(part);
	return NULL;
}

static void put_thread_figures(struct line *line, const struct view *view, const struct sums *sums)
{
	const struct text_number calls = text_count(sums->allocations);
	const struct text_number allocated = text_bytes(sums->allocated_bytes);
	const struct text_number outstanding = text_bytes(sums_outstanding_bytes(sums));
	if (!is_sample(view)) {
		line_to(line, 28);
		line_put(line, "%14s of %10s  %10s outstanding", calls.text, allocated.text,
			outstanding.text);
		return;
	}
	line_to(line, 26);
	line_put(line, "%11s of %10s", calls.text, allocated.text);
	put_bound(line, view, sums, METRIC_ALLOCATED);
	line_put(line, " %10s", outstanding.text);
	put_bound(line, view, sums, METRIC_OUTSTANDING);
}

static void write_thread(const struct text *text, const struct view *view, const struct part *part)
{
	const struct model *model = &view->analysis->model;
	struct line line;
	line_begin(&line, text);
	if (part->key == PARTS_FOLDED) {
		line_put(&line, "%8s  (folded)", "");
	} else {
		bool is_assumed;
		const char *name =
			threads_shown_name(&model->threads, part->key, model->comm, &is_assumed);
		line_put(&line, "%8" PRIu32 "  ", model->threads.thread[part->key].tid);
		line_foreign(&line, name ? name : "?", 16);
		line_put(&line, "%s", is_assumed ? " (assumed)" : "");
	}
	put_thread_figures(&line, view, &part->sums);
	line_end(&line);
}

static struct ht_err *write_threads(const struct text *text, const struct view *view)
{
	struct part *part;
	size_t count;
	HT_TRY(parts_find(view, PARTS_THREAD, &part, &count));
	parts_sort(part, count, METRIC_ALLOCATED);
	line_heading(text,
		is_sample(view) ? "Threads (allocations, outstanding)" : "Threads (allocations)");
	for (size_t i = 0; i < count && i < THREADS_SHOWN; i++)
		if (part[i].key < view->analysis->model.threads.count ||
			part[i].key == PARTS_FOLDED)
			write_thread(text, view, &part[i]);
	if (count > THREADS_SHOWN)
		line_print(text, "    %zu other threads", count - THREADS_SHOWN);
	free(part);
	return NULL;
}

static struct ht_err *write_functions(const struct text *text, const struct view *view)
{
	static const struct sums none;
	const struct sums *sums[REPLAY_HOOKS], *folded = &none;
	struct part *part;
	size_t count;
	HT_TRY(parts_find(view, PARTS_FUNCTION, &part, &count));
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		sums[i] = &none;
	for (size_t i = 0; i < count; i++)
		*(part[i].key == PARTS_FOLDED ? &folded : &sums[part[i].key]) = &part[i].sums;
	line_heading(text, "Functions (allocations, frees)");
	for (unsigned i = 0; i < REPLAY_HOOKS; i++) {
		const struct cube_calls *calls = &view->analysis->cube.function[i];
		const uint64_t frees = view->is_whole ? calls->frees + calls->before_frees : 0;
		struct line line;
		if (!sums[i]->allocations && !frees)
			continue;
		line_begin(&line, text);
		line_put(&line, "    %-16s %14s", cube_function_name(i),
			text_count(sums[i]->allocations).text);
		put_bound(&line, view, sums[i], METRIC_CALLS);
		line_put(&line, "  %14s", view->is_whole ? text_count(frees).text : "");
		line_end(&line);
	}
	if (folded->allocations)
		line_print(
			text, "    %-16s %14s", "(folded)", text_count(folded->allocations).text);
	free(part);
	return NULL;
}

struct ht_err *report_tables_write(const struct text *text, const struct view *view)
{
	HT_TRY(write_sizes(text, view));
	HT_TRY(write_functions(text, view));
	return write_threads(text, view);
}
