/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "analyzer/ui/page.h"
#include "analyzer/views/pauses.h"
#include "format/quantity.h"

#define SCREEN_LINES   23u /* the last of 24 lines is for the shell's prompt */
#define WARNINGS_SHOWN 3u

/* --- title -------------------------------------------------------------------------------------
 */

#define ENDING_BYTES 96u

static void ending_of(const struct model *model, char ret[ENDING_BYTES])
{
	if (!model->has_end)
		snprintf(ret, ENDING_BYTES, "%s",
			model->is_growing ? "still recording" : "end missing");
	else if (model->end.reason == REC_END_DURATION)
		snprintf(ret, ENDING_BYTES, "complete");
	else
		snprintf(ret, ENDING_BYTES, "ended: %s", rec_end_text(model->end.reason));
}

/* "2026-11-20 14:02:11 .. 14:03:11" */
static void put_when(struct line *line, const struct page *page)
{
	static const char date[] = "%Y-%m-%d", both[] = "%Y-%m-%d %H:%M:%S";
	const struct view *view = page->view;
	const uint64_t start_ns = view->analysis->model.capture.start_unix_ns;
	const uint64_t from_ns = start_ns + view->from_ns, to_ns = start_ns + view->to_ns;
	const bool is_utc = page->options->is_utc;
	char from[TEXT_CLOCK_BYTES], to[TEXT_CLOCK_BYTES];
	text_clock(from_ns, is_utc, date, from);
	text_clock(to_ns, is_utc, date, to);
	const bool is_one_day = strcmp(from, to) == 0;
	text_clock(from_ns, is_utc, both, from);
	text_clock(to_ns, is_utc, is_one_day ? "%H:%M:%S" : both, to);
	line_put(line, "%s .. %s%s", from, to, is_utc ? " UTC" : "");
}

/* For a part of the trace: writes the second line of the title. */
static void write_part(const struct page *page)
{
	const struct view *view = page->view;
	struct line line;
	line_begin(&line, page->text);
	put_when(&line, page);
	if (view->is_snapped)
		line_put(&line, ", snapped to buckets of %s",
			text_time(view->analysis->cube.step_ns).text);
	line_put(&line, "; ~ estimates");
	line_end(&line);
}

size_t screen_write_title(const struct page *page)
{
	const struct view *view = page->view;
	const struct model *model = &view->analysis->model;
	char cull[QUANTITY_TEXT_BYTES];
	struct line line;
	line_begin(&line, page->text);
	line_foreign_styled(&line, TEXT_BOLD, model->comm ? model->comm : "unknown program", 24);
	line_put(&line, " (pid %" PRIu64 ")  ", model->target.pid);
	if (!view->is_whole) {
		line_styled(&line, TEXT_BOLD, "window +%s .. +%s", text_time(view->from_ns).text,
			text_time(view->to_ns).text);
		line_put(&line, " of %s", text_time(model->duration_ns).text);
		line_end(&line);
		write_part(page);
		return 2;
	}
	line_put(&line, "%s, ", text_time(model->duration_ns).text);
	put_when(&line, page);
	char ending[ENDING_BYTES];
	ending_of(model, ending);
	const bool fits = line_left(&line) >= strlen(ending) + 2;
	if (fits)
		line_put(&line, ", %s", ending);
	line_end(&line);
	if (!fits)
		line_print(page->text, "recording %s", ending);
	if (model->capture.cull_ns)
		line_print(page->text, "culled: only sums of blocks that lived less than %s",
			quantity_duration_text(model->capture.cull_ns, cull));
	return (fits ? 1 : 2) + (model->capture.cull_ns != 0);
}

/* --- warnings and commands ---------------------------------------------------------------------
 */

/* Fills at most `lines` lines with whole words; notes how many warnings are shown in full. */
static void write_warnings(struct page *page, size_t lines)
{
	const struct warnings *warnings = &page->warnings;
	const size_t first = warnings->has_ending, count = warnings->count - first;
	size_t shown = 0, complete = 0;
	while (shown < count && shown < WARNINGS_SHOWN && lines > 0) {
		/* The last line counts the warnings without room. */
		const size_t room = lines > 1 && shown + 1 < count ? lines - 1 : lines;
		const size_t wanted =
			line_wrap(page->text, "! ", "  ", warnings->text[first + shown++], room);
		complete += wanted <= room;
		lines -= wanted < room ? wanted : room;
		if (lines == 1 && shown + 1 < count)
			break;
	}
	page->warnings_shown = complete;
	if (count > shown)
		line_print(page->text, "! %zu more at the end of this page", count - shown);
}

struct hint {
	const char *before, *after, *what;
};

/* Prints a command to copy; leaves out a path that is too long. */
static void write_hint(const struct page *page, const char *head, const struct hint *hint)
{
	const char *path = page->options->path;
	const size_t command = strlen(head) + strlen(hint->before) + strlen(hint->after);
	struct line line;
	line_begin(&line, page->text);
	if (command + text_columns(path) > line_width(page->text))
		path = "FILE";
	line_put(&line, "%s%s", head, hint->before);
	line_foreign(&line, path, LINE_WIDE);
	line_put(&line, "%s", hint->after);
	if (line_left(&line) >= strlen(hint->what) + 3)
		line_styled(&line, TEXT_DIM, "   %s", hint->what);
	line_end(&line);
}

static void write_next(const struct page *page)
{
	static const struct hint chains = {"heaptap report ", " --stacks", "with call chains"};
	static const struct hint all = {"heaptap report ", " --stacks --show-wrappers",
		"with operator new, alloc::* and the like"};
	static const struct hint by = {
		"heaptap report ", " --by function", "or module, thread, size, lifetime"};
	if (strcmp(page->options->path, "-") == 0)
		return;
	if (!page->options->shows_stacks)
		write_hint(page, "Next: ", &chains);
	else if (view_has_skipped(page->view))
		write_hint(page, "Next: ", &all);
	else
		write_hint(page, "Next: ", &by);
	if (!page->options->shows_stacks || view_has_skipped(page->view))
		write_hint(page, "      ", &by);
}

void screen_write(struct page *page)
{
	size_t lines = 0;
	if (page->warnings.has_ending)
		lines += line_wrap(page->text, "! ", "  ", page->warnings.text[0], 2);
	lines += screen_write_title(page);
	lines += pauses_within(&page->view->analysis->model, page->view->from_ns, page->view->to_ns)
			 .count != 0;
	figures_write(page);
	fputc('\n', page->text->out);
	growth_write(page);
	if (page->warnings.count > page->warnings.has_ending ||
		strcmp(page->options->path, "-") != 0)
		fputc('\n', page->text->out);
	lines = lines > 4 ? 4 : lines;
	/* 18 lines follow: 3 of totals, 2 empty, 11 of growth, 2 of commands. */
	write_warnings(page, SCREEN_LINES - 18 - lines);
	write_next(page);
}
