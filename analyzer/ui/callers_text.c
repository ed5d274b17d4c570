/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/callers_text.h"

#include <inttypes.h>
#include <string.h>

#define LIMIT_DEFAULT 20u
#define OWN_COLUMNS   11u

/* Puts total, share, bound and own value of an entry. */
static void put_sum(const struct calls_text *page, struct line *line, const struct calls_sum *sum,
	int64_t whole)
{
	calls_text_figures(page, line, sum->inclusive, whole);
	line_right(line, sum->own.value ? calls_text_value(page, sum->own.value).text : "",
		OWN_COLUMNS);
}

static void write_columns(const struct calls_text *page, const char *what)
{
	struct line line;
	line_begin(&line, page->text);
	line_styled(&line, TEXT_DIM, "       total   share%s        own  %s",
		page->calls->is_sample ? "    bound" : "", what);
	line_end(&line);
}

static size_t limit_of(const struct calls_text *page, size_t count)
{
	const size_t limit = page->has_limit ? page->limit : LIMIT_DEFAULT;
	return limit && limit < count ? limit : count;
}

static void write_more(
	const struct calls_text *page, size_t count, struct figure more, int64_t whole)
{
	struct line line;
	if (!count)
		return;
	line_begin(&line, page->text);
	calls_text_figures(page, &line, more, whole);
	line_styled(&line, TEXT_DIM, "  %s more", text_count(count).text);
	line_end(&line);
}

/* Prints the full name of any length, because the user must choose among the matches. */
static void write_match(const struct calls_text *page, const struct function_match *match)
{
	static const char indent[] = "                                          ";
	const struct calls *calls = page->calls;
	const struct calls_sum *sum = &match->sum;
	const size_t columns = calls_text_bound_columns(page);
	const struct text_number bound =
		text_bound(page->text, sum->inclusive.value, figure_bound(sum->inclusive));
	const struct frame *frame =
		&calls->view->frames.frame[calls->groups.group[match->group].frame];
	char first[160], name[FUNCTION_NAME_BYTES];
	const size_t blanks =
		columns > text_columns(bound.text) ? columns - text_columns(bound.text) : 0;
	snprintf(first, sizeof(first), "%12s%8s%*s%s%11s  ",
		calls_text_value(page, sum->inclusive.value).text,
		calls_text_share(sum->inclusive.value, calls->total[0].value).text, (int)blanks, "",
		bound.text, calls_text_value(page, sum->own.value).text);
	function_name(calls->view, frame, name);
	line_wrap(page->text, first, indent + TEXT_BOUND_COLUMNS - columns, name, 0);
}

void callers_text_write_matches(
	const struct calls_text *page, const struct function_matches *matches)
{
	const size_t shown = limit_of(page, matches->count);
	calls_text_head(page);
	write_columns(page, "function");
	for (size_t i = 0; i < shown; i++)
		write_match(page, &matches->match[i]);
	if (matches->count > shown)
		fprintf(page->text->out, "%*s%s more: --limit 0 lists all\n", 33, "",
			text_count(matches->count - shown).text);
}

static void write_figure(
	const struct calls_text *page, const char *name, struct figure figure, const char *what)
{
	const struct text_number bound = text_bound(page->text, figure.value, figure_bound(figure));
	fprintf(page->text->out, "  %-14s%s (%s)%s%s%s\n", name,
		calls_text_value(page, figure.value).text,
		calls_text_share(figure.value, page->calls->total[0].value).text,
		*bound.text ? " " : "", bound.text, what);
}

void callers_text_write_function(const struct calls_text *page,
	const struct function_matches *matches, const struct function *callers)
{
	const struct calls_sum *sum = &callers->sum;
	calls_text_head(page);
	for (size_t i = 0; i < matches->count; i++) {
		struct line line;
		line_begin(&line, page->text);
		calls_text_frame(page, &line, matches->match[i].group, NULL, 0);
		line_end(&line);
	}
	write_figure(page, "with callees", sum->inclusive, "");
	write_figure(page, "own", sum->own, "");
	if (callers->recursive.value)
		write_figure(page, "recursive", callers->recursive, ": counted once");
}

/* --- callers and callees -----------------------------------------------------------------------
 */

struct list {
	const char *title, *rest; /* `rest`: title of the entry that is no function */
	const struct function_entry *entry;
	size_t count;
	struct figure of_rest;
};

static void write_entry(
	const struct calls_text *page, const struct function_entry *entry, int64_t whole)
{
	struct line line;
	line_begin(&line, page->text);
	calls_text_figures(page, &line, entry->figure, whole);
	line_put(&line, "  ");
	if (entry->group == UINT32_MAX)
		line_put(&line, "(folded: stacks that allocated little)");
	else
		calls_text_frame(page, &line, entry->group, NULL, 0);
	line_end(&line);
}

static void write_rest(const struct calls_text *page, const struct list *list, int64_t whole)
{
	struct line line;
	if (!list->of_rest.value)
		return;
	line_begin(&line, page->text);
	calls_text_figures(page, &line, list->of_rest, whole);
	line_styled(&line, TEXT_DIM, "  (%s)", list->rest);
	line_end(&line);
}

static void write_list(const struct calls_text *page, const struct list *list, int64_t whole)
{
	const size_t shown = limit_of(page, list->count);
	struct figure more = {0};
	line_heading(page->text, list->title);
	for (size_t i = 0; i < shown; i++)
		write_entry(page, &list->entry[i], whole);
	for (size_t i = shown; i < list->count; i++)
		figure_add(&more, list->entry[i].figure);
	write_more(page, list->count - shown, more, whole);
	write_rest(page, list, whole);
}

/* --- lines -------------------------------------------------------------------------------------
 */

static void put_line(
	const struct calls_text *page, struct line *line, const struct function_line *of)
{
	const struct view *view = page->calls->view;
	const uint32_t module = view->frames.frame[of->frame].module;
	const char *path =
		of->file ? of->file : modules_path(&view->analysis->model.modules, module);
	if (!path) {
		line_put(line, "(unknown)");
		return;
	}
	const bool has_line = of->file && of->line;
	line_foreign(line, strings_base_name(path), line_left(line) - (has_line ? 11 : 18));
	if (has_line)
		line_put(line, ":%" PRIu32, of->line);
	else
		line_put(line, "%s", of->file ? " (line unknown)" : " (no debug info)");
}

static void write_lines(const struct calls_text *page, const struct function *callers)
{
	line_heading(page->text, "Lines");
	write_columns(page, "line");
	for (size_t i = 0; i < callers->line_count; i++) {
		const struct function_line *of = &callers->line[i];
		struct line line;
		line_begin(&line, page->text);
		put_sum(page, &line, &of->sum, callers->sum.inclusive.value);
		line_put(&line, "  ");
		put_line(page, &line, of);
		line_end(&line);
	}
}

/* Whether any frame has a line. Without debug information the list of lines is left out. */
static bool has_lines(const struct function *callers)
{
	for (size_t i = 0; i < callers->line_count; i++)
		if (callers->line[i].file)
			return true;
	return false;
}

void callers_text_write(const struct calls_text *page, const struct function_matches *matches,
	const struct function *callers)
{
	const struct list by = {"Callers", "outermost: it has no caller", callers->caller,
		callers->caller_count, callers->outermost};
	const struct list to = {"Callees", "allocated by the function itself", callers->callee,
		callers->callee_count, callers->sum.own};
	callers_text_write_function(page, matches, callers);
	write_list(page, &by, callers->sum.inclusive.value);
	write_list(page, &to, callers->sum.inclusive.value);
	if (has_lines(callers))
		write_lines(page, callers);
}
