/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/flame_text.h"

#include <stdlib.h>
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

static void name_of(const struct calls *calls, uint32_t node, size_t columns, char ret[NAME_BYTES])
{
	const struct frame *frame = calls_frame(calls, node);
	if (!frame) {
		snprintf(ret, NAME_BYTES, "%s", node ? "(little ones)" : "all");
		return;
	}
	const char *name = calls->groups.group[calls->tree.node[node].group].name;
	if (name)
		snprintf(ret, NAME_BYTES, "%s", name);
	else if (frame->function)
		name_shorten(frame->function, columns, ret);
	else
		function_name(calls->view, frame, ret);
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
	char name[NAME_BYTES];
	if (columns < BOX_LEAST)
		return;
	go_to(row, from);
	put_edge(row);
	name_of(row->page->calls, box->node, columns - 1, name);
	put_name(row, name, columns - 1);
	pad(row, from + columns);
}

/* Indices of boxes by depth, in their order; freed by the caller. */
static struct ht_err *sort_by_depth(const struct flame *flame, uint32_t **ret, uint32_t **ret_first)
{
	*ret = calloc(flame->count + 1, sizeof(**ret));
	*ret_first = calloc((size_t)flame->depth + 3, sizeof(**ret_first));
	if (!*ret || !*ret_first)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for a flame graph of %zu boxes", flame->count);
	uint32_t *next = *ret_first + 1;
	for (size_t i = 0; i < flame->count; i++)
		next[flame->box[i].depth + 1]++;
	for (uint32_t i = 1; i <= flame->depth + 1; i++)
		next[i] += next[i - 1];
	for (uint32_t i = 0; i < flame->count; i++)
		(*ret)[next[flame->box[i].depth]++] = i;
	return NULL;
}

static void write_rows(struct bars *row, const uint32_t *order, const uint32_t *first)
{
	const struct flame *flame = row->flame;
	for (uint32_t depth = 0; depth <= flame->depth; depth++) {
		bool has_any = false;
		for (uint32_t i = first[depth]; i < first[depth + 1] && !has_any; i++)
			has_any = columns_of(row, &flame->box[order[i]]) >= BOX_LEAST;
		if (!has_any)
			break;
		row->column = 0;
		for (uint32_t i = first[depth]; i < first[depth + 1]; i++)
			put_box(row, &flame->box[order[i]]);
		if (row->column < row->width)
			put_edge(row);
		fputc('\n', row->page->text->out);
	}
}

struct ht_err *flame_text_write(const struct calls_text *page, const struct flame *flame)
{
	struct bars row = {.page = page, .flame = flame, .width = line_width(page->text)};
	uint32_t *order = NULL, *first = NULL;
	struct ht_err *err = NULL;
	calls_text_head(page);
	if (calls_text_is_empty(page) || !flame->total)
		return NULL;
	err = sort_by_depth(flame, &order, &first);
	if (!err)
		write_rows(&row, order, first);
	if (!err && flame->negative)
		fprintf(page->text->out, "\nstacks that shrank are left out: -%s\n",
			calls_text_value(page, (int64_t)flame->negative).text);
	free(order);
	free(first);
	return err;
}
