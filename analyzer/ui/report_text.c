/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/report_text.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/ui/memory_text.h"
#include "analyzer/ui/page.h"
#include "analyzer/ui/report_tables.h"
#include "format/quantity.h"

/* --- totals in full ----------------------------------------------------------------------------
 */

static void write_sample(const struct page *page)
{
	char text[320];
	snprintf(text, sizeof(text),
		"one allocation in %s of its bytes was recorded: %s samples. All figures are "
		"estimates; for 95 of 100 the true figure is within the bound that is behind it",
		page_bytes(page, page->view->analysis->cube.sample_bytes).text,
		text_count(page->view->total.samples).text);
	line_wrap(page->text, "  sample       ", "               ", text, 0);
}

static void write_culled(const struct page *page)
{
	const struct model *model = &page->view->analysis->model;
	char text[240], span[QUANTITY_TEXT_BYTES];
	snprintf(text, sizeof(text),
		"of blocks that lived less than %s the trace has only sums for each second (%s "
		"events). All figures are those of a whole trace; times are exact to a second",
		quantity_duration_text(model->capture.cull_ns, span),
		text_count(model->culled_events).text);
	line_wrap(page->text, "  cull         ", "               ", text, 0);
}

/* `bound`: of the bytes, at 95 %; 0: they are exact. */
static void write_total(const struct page *page, const char *name, uint64_t blocks, uint64_t bytes,
	int64_t bound, const char *what)
{
	const struct text_number shown = text_bound(page->text, (int64_t)bytes, bound);
	line_print(page->text, "  %-13s%s of %s%s%s%s", name, text_count(blocks).text,
		page_bytes(page, bytes).text, *shown.text ? " " : "", shown.text, what);
}

static void write_figures(const struct page *page)
{
	const struct view *view = page->view;
	const struct cube *cube = &view->analysis->cube;
	const struct sums *total = &view->total;
	struct line line;
	write_total(page, "allocations", total->allocations, total->allocated_bytes,
		metric_bound(total, METRIC_ALLOCATED), "");
	write_total(page, "frees", total->frees, total->freed_bytes,
		metric_bound(total, METRIC_FREED), " allocated in the window");
	write_total(page, "outstanding", sums_outstanding_blocks(total),
		sums_outstanding_bytes(total), metric_bound(total, METRIC_OUTSTANDING),
		": allocated in the window, not freed in it");
	if (view_is_settled(view))
		write_total(page, "survivors", sums_surviving_blocks(total),
			sums_surviving_bytes(total), metric_bound(total, METRIC_SURVIVORS),
			": of these, not freed after it either");
	line_begin(&line, page->text);
	line_put(&line, "  peak         %s%s", page_mark(page, METRIC_PEAK),
		page_bytes(page, view->peak.bytes).text);
	page_put_bound(page, &line, total, METRIC_PEAK);
	line_put(&line, " at +%s", text_time(view->peak.time_ns).text);
	line_end(&line);
	if (!cube->sample_bytes)
		line_print(page->text,
			"  temporary    %s (%s): freed before their thread allocated again",
			text_count(total->temporary).text,
			text_percent(total->temporary, total->allocations).text);
	if (!cube->sample_bytes && view->is_whole)
		write_total(page, "older", cube->before_frees, cube->before_freed_bytes, 0,
			view->analysis->model.pause_count
				? " freed, allocated earlier or in a pause"
				: " freed in the window, allocated earlier");
}

#define MARKS_SHOWN 10u

/* Lists the marks, which --from and --to accept. */
static void write_marks(const struct page *page)
{
	const struct model *model = &page->view->analysis->model;
	size_t shown = model->mark_count < MARKS_SHOWN ? model->mark_count : MARKS_SHOWN;
	struct line line;
	for (size_t i = 0; i < shown; i++) {
		line_begin(&line, page->text);
		line_put(&line, "  %-13s+%s  ", i ? "" : "marks",
			text_time(model->mark[i].time_ns).text);
		line_foreign(&line, model->mark[i].text, line_left(&line));
		line_end(&line);
	}
	if (model->mark_count > shown)
		line_print(page->text, "               %zu more: heaptap info lists them",
			model->mark_count - shown);
}

static void write_totals(const struct page *page)
{
	const struct model *model = &page->view->analysis->model;
	struct line line;
	line_heading(page->text, "Totals");
	line_begin(&line, page->text);
	line_put(&line, "  program      ");
	line_foreign(&line, model->exe ? model->exe : "unknown", line_left(&line));
	line_end(&line);
	if (page->view->analysis->cube.sample_bytes)
		write_sample(page);
	if (model->capture.cull_ns)
		write_culled(page);
	if (page_is_empty(page))
		line_print(page->text, "  empty        %s in this window",
			view_is_filtered(page->view)  ? "the options choose no allocation"
			: model->capture.sample_bytes ? "the sample has no allocation"
						      : "the process allocated and freed nothing");
	else
		write_figures(page);
	if (page->view->is_whole)
		memory_text_write(page->text, page->view->analysis);
	write_marks(page);
	line_print(page->text, "  lost         %s events dropped, %s stacks cut",
		text_count(model_dropped_events(model)).text,
		text_count(model_truncated_stacks(model)).text);
}

/* --- the end of the page -----------------------------------------------------------------------
 */

/* Writes the warnings that the first screen cut or left out. */
static void write_warnings(const struct page *page, bool all)
{
	const struct warnings *warnings = &page->warnings;
	const size_t first = warnings->has_ending;
	if (warnings->count == first || (!all && page->warnings_shown == warnings->count - first))
		return;
	line_heading(page->text, "Warnings");
	for (size_t i = first; i < warnings->count; i++)
		line_wrap(page->text, "  ! ", "    ", warnings->text[i], 0);
}

static struct ht_err *write_lists(struct page *page)
{
	screen_write(page);
	if (page->options->is_brief)
		return NULL;
	if (!page_is_empty(page))
		HT_TRY(lists_write(page));
	HT_TRY(mappings_text_write(page));
	write_totals(page);
	if (!page_is_empty(page))
		HT_TRY(report_tables_write(page->text, page->view));
	write_warnings(page, false);
	return NULL;
}

static struct ht_err *write_table(struct page *page)
{
	if (page->warnings.has_ending)
		line_wrap(page->text, "! ", "  ", page->warnings.text[0], 2);
	screen_write_title(page);
	HT_TRY(breakdown_text_write(page));
	write_warnings(page, true);
	return NULL;
}

static struct ht_err *write_page(struct page *page)
{
	HT_TRY(warnings_collect(page->view->analysis, &page->warnings));
	if (page->options->has_by)
		return write_table(page);
	HT_TRY(suspects_find(page->view, &page->suspects));
	HT_TRY(suspects_classes(page->view, &page->suspects, &page->class_of_row));
	return write_lists(page);
}

struct ht_err *report_text_write(
	const struct text *text, const struct view *view, const struct page_options *options)
{
	struct page page = {.text = text, .view = view, .options = options};
	struct ht_err *err = write_page(&page);
	warnings_deinit(&page.warnings);
	suspects_deinit(&page.suspects);
	free(page.class_of_row);
	return err;
}
