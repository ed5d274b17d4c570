/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/tree_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"

#define OWN_COLUMNS  11u
#define NAME_COLUMNS 28u /* columns left for a name at the deepest level drawn */

/* The children of a node to print. */
struct shown {
	uint32_t count; /* number of children with lines of their own */
	uint32_t more;	/* number of children summed up */
	int64_t more_value;
};

/* A level whose entries are being printed. */
struct level {
	uint32_t node; /* the innermost node of the chain that calls the entries */
	uint32_t next; /* index of the child to look at next */
	struct shown left;
};

struct tree_text {
	const struct calls_text *page;
	const struct calls *calls;
	int64_t least;
	struct level *level;
	size_t count, capacity;
};

static int64_t value_of(const struct tree_text *tree, uint32_t node, uint32_t index)
{
	const struct calls *calls = tree->calls;
	return calls->total[calls->child[calls->children[node].first + index]].value;
}

static bool is_shown(const struct tree_text *tree, uint32_t node, uint32_t index)
{
	const struct calls_text *page = tree->page;
	if (page->has_limit)
		return !page->limit || index < page->limit;
	return llabs(value_of(tree, node, index)) >= tree->least;
}

static struct shown shown_of(const struct tree_text *tree, uint32_t node)
{
	struct shown ret = {0};
	for (uint32_t i = 0; i < tree->calls->children[node].count; i++) {
		if (is_shown(tree, node, i)) {
			ret.count++;
		} else {
			ret.more++;
			ret.more_value += value_of(tree, node, i);
		}
	}
	return ret;
}

/* The only child shown, if the summed-up rest is small; 0: several or none. */
static uint32_t only_child(const struct tree_text *tree, uint32_t node, const struct shown *shown)
{
	const struct calls *calls = tree->calls;
	if (shown->count != 1 || llabs(shown->more_value) >= tree->least ||
		(!node && calls->own[0].value))
		return 0;
	for (uint32_t i = 0; i < calls->children[node].count; i++)
		if (is_shown(tree, node, i))
			return calls->child[calls->children[node].first + i];
	return 0;
}

/* --- lines -------------------------------------------------------------------------------------
 */

enum corner { CORNER_NONE, CORNER_BRANCH, CORNER_LAST };

static const char *glyph(const struct tree_text *tree, enum corner corner)
{
	static const char *const ascii[] = {"|", "+", "`"};
	/* U+2502, U+251C, U+2514 */
	static const char *const utf8[] = {"\xe2\x94\x82", "\xe2\x94\x9c", "\xe2\x94\x94"};
	return tree->page->text->has_utf8 ? utf8[corner] : ascii[corner];
}

static bool has_more(const struct level *level)
{
	return level->left.count || level->left.more;
}

/* Draws one column per level; if there are too many, prints the level's number instead of the outer
 * ones. */
static void put_guides(const struct tree_text *tree, struct line *line, enum corner corner)
{
	const size_t width = line_left(line);
	const size_t room = width > NAME_COLUMNS + 4 ? width - NAME_COLUMNS : 4;
	size_t first = 0;
	if (tree->count > room) {
		first = tree->count - (room - 4);
		line_styled(line, TEXT_DIM, "%zu:", tree->count);
	}
	for (size_t i = first; i < tree->count; i++) {
		const bool is_last = i + 1 == tree->count;
		if (is_last && corner != CORNER_NONE)
			line_put(line, "%s", glyph(tree, corner));
		else
			line_put(line, "%s", has_more(&tree->level[i]) ? glyph(tree, 0) : " ");
	}
	if (tree->count)
		line_put(line, " ");
}

static void put_figures(
	const struct tree_text *tree, struct line *line, uint32_t node, bool has_total)
{
	const struct calls *calls = tree->calls;
	const int64_t own = calls->own[node].value;
	if (has_total)
		calls_text_figures(tree->page, line, calls->total[node], calls->total[0].value);
	else
		line_right(line, "", CALLS_TEXT_FIGURES + calls_text_bound_columns(tree->page));
	if (!calls->options.is_bottom_up)
		line_right(line, own && node ? calls_text_value(tree->page, own).text : "",
			OWN_COLUMNS);
	line_put(line, "  ");
}

static void write_more(const struct tree_text *tree, const struct shown *shown)
{
	struct line line;
	line_begin(&line, tree->page->text);
	calls_text_figures(tree->page, &line, (struct figure){.value = shown->more_value},
		tree->calls->total[0].value);
	if (!tree->calls->options.is_bottom_up)
		line_put(&line, "%*s", (int)OWN_COLUMNS, "");
	line_put(&line, "  ");
	put_guides(tree, &line, CORNER_LAST);
	line_styled(&line, TEXT_DIM, "%s more", text_count(shown->more).text);
	line_end(&line);
}

static void write_no_stack(const struct tree_text *tree)
{
	const struct figure own = tree->calls->own[0];
	struct line line;
	if (!own.value)
		return;
	line_begin(&line, tree->page->text);
	calls_text_figures(tree->page, &line, own, tree->calls->total[0].value);
	if (!tree->calls->options.is_bottom_up)
		line_right(&line, calls_text_value(tree->page, own.value).text, OWN_COLUMNS);
	line_put(&line, "  ");
	put_guides(tree, &line, has_more(&tree->level[0]) ? CORNER_BRANCH : CORNER_LAST);
	line_put(&line, "(no stack)");
	line_end(&line);
}

/* --- chains ------------------------------------------------------------------------------------
 */

/* Moves `*node` past calls in which a function only calls itself; returns their number. */
static uint32_t skip_recursion(const struct tree_text *tree, uint32_t *node, struct shown *shown)
{
	const struct calls *calls = tree->calls;
	uint32_t times = 1;
	for (;; times++) {
		const uint32_t child = only_child(tree, *node, shown);
		if (!child || shown->more || calls->own[*node].value ||
			calls->tree.node[child].group != calls->tree.node[*node].group)
			return times;
		*node = child;
		*shown = shown_of(tree, child);
	}
}

static void write_node(const struct tree_text *tree, uint32_t node, enum corner corner,
	bool has_total, const struct frame *above, uint32_t *ret_last, struct shown *ret)
{
	struct line line;
	*ret_last = node;
	*ret = shown_of(tree, node);
	const uint32_t times = node ? skip_recursion(tree, ret_last, ret) : 1;
	line_begin(&line, tree->page->text);
	put_figures(tree, &line, *ret_last, has_total);
	put_guides(tree, &line, corner);
	if (times > 1)
		line_put(&line, "%" PRIu32 " x ", times);
	char more[96] = "";
	/* Name the left-out children only if they are at least a thousandth of the whole. */
	if (llabs(ret->more_value) >= (tree->least + 9) / 10 && only_child(tree, *ret_last, ret))
		snprintf(more, sizeof(more), "  (%s more: %s)", text_count(ret->more).text,
			calls_text_value(tree->page, ret->more_value).text);
	calls_text_node(tree->page, &line, node, above, strlen(more));
	line_styled(&line, TEXT_DIM, "%s", more);
	line_end(&line);
}

/* Prints a node and, below it on the same level, the chain of only children. The children of its
 * last node become a new level. */
static struct ht_err *write_chain(struct tree_text *tree, uint32_t node, enum corner corner)
{
	const struct calls *calls = tree->calls;
	const struct frame *above = NULL;
	struct shown shown;
	bool has_total = true;
	uint32_t last;
	for (;;) {
		write_node(tree, node, corner, has_total, above, &last, &shown);
		const uint32_t child = only_child(tree, last, &shown);
		if (!child)
			break;
		above = calls_frame(calls, last);
		has_total = calls->total[child].value != calls->total[last].value;
		node = child;
		corner = CORNER_NONE;
	}
	HT_TRY(array_reserve(&tree->level, &tree->capacity, tree->count + 1, sizeof(*tree->level),
		"levels of a call tree"));
	tree->level[tree->count++] = (struct level){.node = last, .left = shown};
	return NULL;
}

/* Prints the next entry of the innermost level, or closes the level. */
static struct ht_err *write_next(struct tree_text *tree)
{
	const struct calls *calls = tree->calls;
	struct level *level = &tree->level[tree->count - 1];
	const struct calls_children *children = &calls->children[level->node];
	while (level->left.count && !is_shown(tree, level->node, level->next))
		level->next++;
	if (level->left.count) {
		const uint32_t child = calls->child[children->first + level->next++];
		level->left.count--;
		return write_chain(tree, child, has_more(level) ? CORNER_BRANCH : CORNER_LAST);
	}
	if (level->left.more) {
		const struct shown more = level->left;
		level->left.more = 0;
		write_more(tree, &more);
	}
	tree->count--;
	return NULL;
}

static void write_columns(const struct tree_text *tree)
{
	const bool is_bottom_up = tree->calls->options.is_bottom_up;
	struct line line;
	line_begin(&line, tree->page->text);
	line_styled(&line, TEXT_DIM, "       %s   share%s%s", is_bottom_up ? "value" : "total",
		tree->calls->is_sample ? "    bound" : "",
		is_bottom_up ? "  function, with its callers below it" : "        own  function");
	line_end(&line);
}

struct ht_err *tree_text_write(const struct calls_text *page)
{
	struct tree_text tree = {
		.page = page, .calls = page->calls, .least = calls_text_least(page->calls)};
	calls_text_head(page);
	if (calls_text_is_empty(page))
		return NULL;
	write_columns(&tree);
	struct ht_err *err = write_chain(&tree, 0, CORNER_NONE);
	if (!err)
		write_no_stack(&tree);
	while (tree.count && !err)
		err = write_next(&tree);
	free(tree.level);
	return err;
}
