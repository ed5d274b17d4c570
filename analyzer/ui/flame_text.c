/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/flame_text.h"

#include <string.h>

#include "analyzer/ui/name.h"
#include "analyzer/views/function.h"

#define BOX_LEAST 4u /* narrowest box drawn, in columns with its edge */

struct bars {
	const struct calls_text *page;
	const struct flame *flame;
	size_t width, column; /* columns of the page; columns written so far */
};

static size_t column_of(const struct bars *row, uint64_t at)
{
	return (size_t)((unsigned __int128)at * row->width / row->flame->total);
}

static void pad(struct bars *row, size_t column)
{
	for (; row->column < column; row->column++)
		fputc(' ', row->page->text->out);
}

static void put_edge(struct bars *row)
{
	/* U+2502 */
	text_styled(row->page->text, TEXT_DIM, row->page->text->has_utf8 ? "\xe2\x94\x82" : "|");
	row->column++;
}

/* In a narrow box the beginning of a name is more useful than its end. */
static void put_name(struct bars *row, const char *name, size_t columns)
{
	char cut[NAME_BYTES];
	size_t end = strlen(name);
	snprintf(cut, sizeof(cut), "%s", name);
	if (text_columns(cut) <= columns) {
		row->column +=
			text_elided(row->page->text, cut, (unsigned)(columns < 5 ? 5 : columns));
		return;
	}
	while (end && (text_columns(cut) > columns - 1 || (cut[end] & 0xc0) == 0x80))
		cut[--end] = '\0';
	text_foreign(row->page->text, cut, sizeof(cut));
	row->column += text_columns(cut);
	fputc('~', row->page->text->out);
	row->column++;
}

static size_t columns_of(const struct bars *row, const struct flame_box *box)
{
	return column_of(row, box->start + box->value) - column_of(row, box->start);
}

/* Marks the end of the previous box if something is left out after it. */
static void go_to(struct bars *row, size_t column)
{
	if (row->column && row->column < column)
		put_edge(row);
	pad(row, column);
}

static void put_box(struct bars *row, const struct flame_box *box)
{
	const size_t from = column_of(row, box->start), columns = columns_of(row, box);
	const struct calls *calls = row->page->calls;
	char name[NAME_BYTES];
	if (columns < BOX_LEAST)
		return;
	go_to(row, from);
	put_edge(row);
	if (!calls_frame(calls, box->node))
		snprintf(name, sizeof(name), "%s", box->node ? "(little ones)" : "all");
	else
		calls_text_name(calls, calls->tree.node[box->node].group, columns - 1, name);
	put_name(row, name, columns - 1);
	pad(row, from + columns);
}

/* Whether a box of this depth is wide enough to be drawn. */
static bool has_box(const struct bars *row, uint32_t depth)
{
	const struct flame *flame = row->flame;
	for (size_t i = 0; i < flame->count; i++)
		if (flame->box[i].depth == depth && columns_of(row, &flame->box[i]) >= BOX_LEAST)
			return true;
	return false;
}

static void write_rows(struct bars *row)
{
	const struct flame *flame = row->flame;
	for (uint32_t depth = 0; depth <= flame->depth && has_box(row, depth); depth++) {
		row->column = 0;
		for (size_t i = 0; i < flame->count; i++)
			if (flame->box[i].depth == depth)
				put_box(row, &flame->box[i]);
		if (row->column < row->width)
			put_edge(row);
		fputc('\n', row->page->text->out);
	}
}

void flame_text_write(const struct calls_text *page, const struct flame *flame)
{
	struct bars row = {.page = page, .flame = flame, .width = line_width(page->text)};
	calls_text_head(page);
	if (calls_text_is_empty(page) || !flame->total)
		return;
	write_rows(&row);
	if (flame->negative)
		fprintf(page->text->out, "\nstacks that shrank are left out: -%s\n",
			calls_text_value(page, (int64_t)flame->negative).text);
}
