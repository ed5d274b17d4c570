/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a page, made of pieces and never wider than the page. What does not fit is cut at the
 * end, so put important pieces first.
 */
#pragma once

#include "analyzer/ui/text.h"

#define LINE_STYLES 24u
#define LINE_WIDE   1000u /* columns of a line on a page without a width */

struct line_style {
	size_t from, to; /* byte range */
	enum text_style style;
};

struct line {
	const struct text *text;
	struct text memory; /* pieces are written here */
	char *bytes;
	size_t length, columns;
	struct line_style style[LINE_STYLES];
	size_t style_count;
};

/* The width of a line; LINE_WIDE if text->columns is 0. */
size_t line_width(const struct text *text);
/* `text` is borrowed until line_end. */
void line_begin(struct line *line, const struct text *text);
/* Puts a piece without a style. */
HT_PRINTF(2, 3) void line_put(struct line *line, const char *fmt, ...);
HT_PRINTF(3, 4)
void line_styled(struct line *line, enum text_style style, const char *fmt, ...);
/* Puts a string of foreign origin in at most `columns`; leaves out the middle of a longer one. */
void line_foreign(struct line *line, const char *string, size_t columns);
void line_foreign_styled(
	struct line *line, enum text_style style, const char *string, size_t columns);
/* Puts a string right-aligned in `columns`. */
void line_right(struct line *line, const char *string, size_t columns);
/* Puts spaces up to a column. */
void line_to(struct line *line, size_t column);
/* A sparkline (text_sparkline). */
void line_sparkline(
	struct line *line, const uint64_t *value, size_t count, uint64_t lowest, size_t columns);
/* Columns left. */
size_t line_left(const struct line *line);
/* Prints the line, without spaces at its end. */
void line_end(struct line *line);

/* Prints a line of one piece. */
HT_PRINTF(2, 3) void line_print(const struct text *text, const char *fmt, ...);
/* An empty line, and a title on a line of its own. */
void line_heading(const struct text *text, const char *title);

/* Prints a foreign text in whole words, each line after its indent (ASCII); a page without a width
 * has one line. At most `lines_max` lines, 0: all. Returns the number of lines that the whole text
 * needs. */
size_t line_wrap(const struct text *text, const char *first, const char *rest, const char *string,
	size_t lines_max);
