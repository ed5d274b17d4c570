/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/line.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "format/foreign.h"

size_t line_width(const struct text *text)
{
	return text->columns ? text->columns : LINE_WIDE;
}

void line_begin(struct line *line, const struct text *text)
{
	*line = (struct line){.text = text, .memory = *text};
	line->memory.has_colour = false;
	line->memory.out = open_memstream(&line->bytes, &line->length);
	/* Without memory for the line, print its pieces directly. */
	if (!line->memory.out)
		line->memory.out = text->out;
}

static bool is_kept(const struct line *line)
{
	return line->memory.out != line->text->out;
}

/* Counts the columns written since `from`. */
static void added(struct line *line, size_t from)
{
	if (!is_kept(line))
		return;
	fflush(line->memory.out);
	line->columns += text_columns(line->bytes + from);
}

static void add_style(struct line *line, size_t from, enum text_style style)
{
	if (line->style_count < LINE_STYLES && is_kept(line))
		line->style[line->style_count++] = (struct line_style){from, line->length, style};
}

static HT_PRINTF(2, 0) void put(struct line *line, const char *fmt, va_list args)
{
	const size_t from = line->length;
	vfprintf(line->memory.out, fmt, args);
	added(line, from);
}

void line_put(struct line *line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	put(line, fmt, args);
	va_end(args);
}

void line_styled(struct line *line, enum text_style style, const char *fmt, ...)
{
	const size_t from = line->length;
	va_list args;
	va_start(args, fmt);
	put(line, fmt, args);
	va_end(args);
	add_style(line, from, style);
}

void line_foreign(struct line *line, const char *string, size_t columns)
{
	const size_t from = line->length;
	if (columns > LINE_WIDE)
		columns = LINE_WIDE;
	text_elided(&line->memory, string, (unsigned)(columns < 5 ? 5 : columns));
	added(line, from);
}

void line_foreign_styled(
	struct line *line, enum text_style style, const char *string, size_t columns)
{
	const size_t from = line->length;
	line_foreign(line, string, columns);
	add_style(line, from, style);
}

void line_right(struct line *line, const char *string, size_t columns)
{
	const size_t length = text_columns(string);
	line_put(line, "%*s%s", length < columns ? (int)(columns - length) : 0, "", string);
}

void line_to(struct line *line, size_t column)
{
	if (line->columns < column)
		line_put(line, "%*s", (int)(column - line->columns), "");
}

void line_sparkline(
	struct line *line, const uint64_t *value, size_t count, uint64_t lowest, size_t columns)
{
	const size_t from = line->length;
	text_sparkline(&line->memory, value, count, lowest, (unsigned)columns);
	added(line, from);
}

size_t line_left(const struct line *line)
{
	const size_t width = line_width(line->text);
	return line->columns < width ? width - line->columns : 0;
}

/* --- printing ----------------------------------------------------------------------------------
 */

/* Bytes of the first characters that fit into `columns`. */
static size_t bytes_within(const char *string, size_t columns)
{
	size_t at = 0, used = 0;
	while (string[at]) {
		char one[8] = "";
		uint32_t point;
		size_t size = foreign_decode(string + at, strnlen(string + at, 4), &point);
		size = size ? size : 1;
		memcpy(one, string + at, size);
		used += text_columns(one);
		if (used > columns)
			break;
		at += size;
	}
	return at;
}

static void print_piece(const struct line *line, size_t from, size_t to, const int *style)
{
	char *piece = strndup(line->bytes + from, to - from);
	if (!piece)
		return;
	if (style)
		text_styled(line->text, (enum text_style) * style, piece);
	else
		fputs(piece, line->text->out);
	free(piece);
}

static void print_styled(const struct line *line, size_t end)
{
	size_t at = 0;
	for (size_t i = 0; i < line->style_count; i++) {
		const struct line_style *style = &line->style[i];
		const int number = style->style;
		const size_t to = style->to < end ? style->to : end;
		if (style->from >= end)
			break;
		print_piece(line, at, style->from, NULL);
		print_piece(line, style->from, to, &number);
		at = to;
	}
	print_piece(line, at, end, NULL);
}

void line_end(struct line *line)
{
	const size_t width = line_width(line->text);
	if (is_kept(line)) {
		fclose(line->memory.out);
		while (line->length && line->bytes[line->length - 1] == ' ') {
			line->length--;
			line->columns--;
		}
		const bool is_cut = line->text->columns && line->columns > width;
		print_styled(line, is_cut ? bytes_within(line->bytes, width - 3) : line->length);
		if (is_cut)
			fputs("...", line->text->out);
		free(line->bytes);
	}
	fputc('\n', line->text->out);
}

void line_print(const struct text *text, const char *fmt, ...)
{
	struct line line;
	va_list args;
	line_begin(&line, text);
	va_start(args, fmt);
	put(&line, fmt, args);
	va_end(args);
	line_end(&line);
}

void line_heading(const struct text *text, const char *title)
{
	struct line line;
	fputc('\n', text->out);
	line_begin(&line, text);
	line_styled(&line, TEXT_BOLD, "%s", title);
	line_end(&line);
}

/* --- paragraphs --------------------------------------------------------------------------------
 */

/* Bytes of the first line of `string`; ends after a word if one fits. */
static size_t first_line(const char *string, size_t columns)
{
	const size_t fits = bytes_within(string, columns);
	size_t at = fits;
	if (!string[fits])
		return fits;
	while (at && string[at] != ' ')
		at--;
	return at ? at : fits ? fits : 1;
}

size_t line_wrap(const struct text *text, const char *first, const char *rest, const char *string,
	size_t lines_max)
{
	char *clean = strdup(string);
	size_t lines = 0;
	if (!clean)
		return 0;
	foreign_copy(clean, strlen(clean) + 1, clean);
	for (const char *at = clean; *at || !lines; lines++) {
		const char *indent = lines ? rest : first;
		const size_t width = line_width(text), used = strlen(indent);
		const size_t bytes = text->columns
					     ? first_line(at, width > used + 8 ? width - used : 8)
					     : strlen(at);
		if (!lines_max || lines < lines_max)
			fprintf(text->out, "%s%.*s\n", indent, (int)bytes, at);
		at += bytes;
		while (*at == ' ')
			at++;
	}
	free(clean);
	return lines;
}
