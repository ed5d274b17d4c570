/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/source_text.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/ui/callers_text.h"

#define CONTEXT	       3u /* lines around one that has a value */
#define TAB_COLUMNS    4u
#define FIGURE_COLUMNS 10u
#define LINES_MAX      UINT32_MAX
#define LINE_BYTES     1000u /* of a source line */

/* The lines of one file. */
struct part {
	const struct calls_text *page;
	const struct function *callers;
	const struct function_line *line;
	size_t count;
	const struct source *source;
};

/* --- one line ----------------------------------------------------------------------------------
 */

/* Expands tabs, so that the text stays in its columns. */
static void expand(const char *from, char to[LINE_BYTES])
{
	size_t at = 0;
	for (; *from && at + TAB_COLUMNS < LINE_BYTES; from++) {
		if (*from != '\t') {
			to[at++] = *from;
			continue;
		}
		do
			to[at++] = ' ';
		while (at % TAB_COLUMNS);
	}
	to[at] = '\0';
}

/* Writes a source line: foreign text, cut if it is too long. */
static void put_source(struct line *line, const char *source, bool has_value)
{
	char expanded[LINE_BYTES], fits[LINE_BYTES];
	expand(source, expanded);
	const size_t left = line_left(line);
	if (text_columns(expanded) <= left) {
		snprintf(fits, sizeof(fits), "%s", expanded);
	} else {
		/* Cut at the right: source is read from the left. */
		size_t end = strlen(expanded);
		while (end && (text_columns(expanded) > left - 3 || (expanded[end] & 0xc0) == 0x80))
			expanded[--end] = '\0';
		snprintf(fits, sizeof(fits), "%.990s...", expanded);
	}
	if (has_value)
		line_foreign(line, fits, left);
	else
		line_foreign_styled(line, TEXT_DIM, fits, left);
}

static void put_margin(const struct part *part, struct line *line, const struct function_line *of)
{
	static const struct calls_sum none;
	const struct calls_text *page = part->page;
	const struct calls_sum *sum = of ? &of->sum : &none;
	line_right(
		line, of ? calls_text_value(page, sum->inclusive.value).text : "", FIGURE_COLUMNS);
	calls_text_bound(page, line, sum->inclusive);
	line_right(line, sum->own.value ? calls_text_value(page, sum->own.value).text : "",
		FIGURE_COLUMNS + 1);
}

static void write_line(const struct part *part, uint32_t number, const struct function_line *of)
{
	struct line line;
	line_begin(&line, part->page->text);
	put_margin(part, &line, of);
	line_put(&line, " %5" PRIu32 "  ", number);
	if (part->source && number <= part->source->line_count)
		put_source(&line, part->source->line[number - 1], of != NULL);
	line_end(&line);
}

/* --- a file ------------------------------------------------------------------------------------
 */

/* Writes the context within lines [from, to), which have no value. */
static void write_gap(const struct part *part, uint64_t from, uint64_t to, bool has_before)
{
	const uint64_t after = has_before ? from + CONTEXT : from;
	const uint64_t before = to > CONTEXT ? to - CONTEXT : 1;
	bool is_left_out = false;
	for (uint64_t i = from; i < to && i <= part->source->line_count; i++) {
		if (i < after || i >= before) {
			write_line(part, (uint32_t)i, NULL);
		} else if (!is_left_out) {
			is_left_out = true;
			if (has_before && to < LINES_MAX)
				fprintf(part->page->text->out, "%*s...\n",
					(int)(2 * FIGURE_COLUMNS + 4 +
						calls_text_bound_columns(part->page)),
					"");
			i = before > i ? before - 1 : i;
		}
	}
}

static void write_lines(const struct part *part)
{
	uint64_t next = 1;
	for (size_t i = 0; i < part->count; i++) {
		const struct function_line *of = &part->line[i];
		if (!of->line)
			continue;
		if (part->source)
			write_gap(part, next, of->line, next > 1);
		write_line(part, of->line, of);
		next = (uint64_t)of->line + 1;
	}
	if (part->source && next > 1)
		write_gap(part, next, LINES_MAX, true);
}

static void write_notes(const struct part *part, const char *why)
{
	const struct calls_text *page = part->page;
	const struct model *model = &page->calls->view->analysis->model;
	const struct function_line *last = &part->line[part->count - 1];
	char text[SOURCE_WHY_BYTES + 64];
	if (why[0])
		line_wrap(page->text, "", "", why, 0);
	if (!part->source)
		return;
	if (part->source->changed_ns > (int64_t)model->capture.start_unix_ns)
		line_wrap(page->text, "", "",
			"the file changed after the recording began: its lines may have moved", 0);
	if (last->line > part->source->line_count) {
		snprintf(text, sizeof(text),
			"the file has %zu lines, the trace names line %" PRIu32
			": it is another version",
			part->source->line_count, last->line);
		line_wrap(page->text, "", "", text, 0);
	}
}

static void write_title(const struct part *part)
{
	const struct text *text = part->page->text;
	const char *path = part->source ? part->source->path : part->line->file;
	struct line line;
	fputc('\n', text->out);
	line_begin(&line, text);
	line_foreign_styled(&line, TEXT_BOLD, path ? path : "no file is known", line_left(&line));
	line_end(&line);
}

static struct ht_err *write_file(struct part *part, const struct source_places *places)
{
	struct source source = {0};
	char why[SOURCE_WHY_BYTES] =
		"the trace has no debug information of this function: install its debug symbols, "
		"then heaptap source --debug-dir DIR";
	struct ht_err *err = NULL;
	if (part->line->file)
		err = source_read(places, part->line->file, &source, why);
	if (err)
		return err;
	part->source = source.data ? &source : NULL;
	write_title(part);
	write_notes(part, why);
	if (part->line->file) {
		text_styled(part->page->text, TEXT_DIM,
			part->page->calls->is_sample ? "     total    bound        own  line\n"
						     : "     total        own  line\n");
		write_lines(part);
	}
	source_deinit(&source);
	return NULL;
}

struct ht_err *source_text_write(const struct calls_text *page,
	const struct function_matches *matches, const struct function *callers,
	const struct source_places *places)
{
	struct ht_err *err = NULL;
	callers_text_write_function(page, matches, callers);
	for (size_t i = 0, end; i < callers->line_count && !err; i = end) {
		const struct function_line *first = &callers->line[i];
		for (end = i + 1; end < callers->line_count; end++)
			if (callers->line[end].file != first->file)
				break;
		struct part part = {page, callers, first, end - i, NULL};
		err = write_file(&part, places);
	}
	return err;
}
