/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/report_tables.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/ui/line.h"
#include "analyzer/views/parts.h"

#define THREADS_SHOWN 10u
#define BAR_WIDTH     30u

static void write_size(const struct text *text, const struct part *part, uint64_t most)
{
	const struct sums *sums = &part->sums;
	const bool is_folded = part->key == PARTS_FOLDED;
	const uint64_t from = is_folded ? 0 : parts_size_from(part->key);
	const size_t bar = (size_t)((double)sums->allocations / (double)most * BAR_WIDTH + 0.5);
	struct line line;
	line_begin(&line, text);
	line_put(&line, "    %10s%s  %14s  %10s  ", is_folded ? "(folded)" : text_bytes(from).text,
		from > 1 ? ".." : "  ", text_count(sums->allocations).text,
		text_bytes(sums_outstanding_bytes(sums)).text);
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
		write_size(text, &part[i], most);
	free(part);
	return NULL;
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
	line_to(&line, 28);
	line_put(&line, "%14s of %10s  %10s outstanding", text_count(part->sums.allocations).text,
		text_bytes(part->sums.allocated_bytes).text,
		text_bytes(sums_outstanding_bytes(&part->sums)).text);
	line_end(&line);
}

static struct ht_err *write_threads(const struct text *text, const struct view *view)
{
	struct part *part;
	size_t count;
	HT_TRY(parts_find(view, PARTS_THREAD, &part, &count));
	parts_sort(part, count, METRIC_ALLOCATED);
	line_heading(text, "Threads (allocations)");
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
	uint64_t allocations[REPLAY_HOOKS] = {0}, folded = 0;
	struct part *part;
	size_t count;
	HT_TRY(parts_find(view, PARTS_FUNCTION, &part, &count));
	for (size_t i = 0; i < count; i++)
		*(part[i].key == PARTS_FOLDED ? &folded : &allocations[part[i].key]) =
			part[i].sums.allocations;
	free(part);
	line_heading(text, "Functions (allocations, frees)");
	for (unsigned i = 0; i < REPLAY_HOOKS; i++) {
		const struct cube_calls *calls = &view->analysis->cube.function[i];
		const uint64_t frees = view->is_whole ? calls->frees + calls->before_frees : 0;
		struct line line;
		if (!allocations[i] && !frees)
			continue;
		line_begin(&line, text);
		line_put(&line, "    %-16s %14s  %14s", cube_function_name(i),
			text_count(allocations[i]).text,
			view->is_whole ? text_count(frees).text : "");
		line_end(&line);
	}
	if (folded)
		line_print(text, "    %-16s %14s", "(folded)", text_count(folded).text);
	return NULL;
}

struct ht_err *report_tables_write(const struct text *text, const struct view *view)
{
	HT_TRY(write_sizes(text, view));
	HT_TRY(write_functions(text, view));
	return write_threads(text, view);
}
