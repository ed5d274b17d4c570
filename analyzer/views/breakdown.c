/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/breakdown.h"

#include <stdlib.h>

#include "analyzer/views/lifetimes.h"
#include "analyzer/views/parts.h"

void breakdown_deinit(struct breakdown *breakdown)
{
	free(breakdown->row);
	groups_deinit(&breakdown->groups);
	*breakdown = (struct breakdown){0};
}

#define LIFE_FIRST 11u /* class of lives from 1.024 us on */

static struct ht_err *out_of_memory(size_t rows)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for a table of %zu rows", rows);
}

/* --- by frames ---------------------------------------------------------------------------------
 */

/* A walk of a tree by line or address, whose nodes are added up by coarser groups. */
struct walk {
	const struct view *view;
	const struct tree *tree;
	const struct groups *groups; /* the groups that are rows */
	struct sums *own, *total;    /* by node */
	uint32_t *child, *sibling;   /* by node; 0: none */
	uint32_t *depth;	     /* by row: number of its frames above the node */
	struct breakdown_row *row;   /* by group; then no stack, then other */
	size_t rows;
};

static size_t row_of(const struct walk *walk, uint32_t node)
{
	const uint32_t group = walk->tree->node[node].group;
	if (node == 0)
		return walk->groups->count;
	if (group == UINT32_MAX)
		return walk->groups->count + 1;
	return walk->groups->of_frame[walk->tree->groups->group[group].frame];
}

static void enter(struct walk *walk, uint32_t node)
{
	const size_t row = row_of(walk, node);
	sums_add(&walk->row[row].own, &walk->own[node]);
	/* The root is the row of blocks without a stack, but all stacks lie below it: its total
	 * would count them too. */
	if (node == 0)
		sums_add(&walk->row[row].inclusive, &walk->own[node]);
	else if (walk->depth[row]++ == 0)
		sums_add(&walk->row[row].inclusive, &walk->total[node]);
}

static void leave(struct walk *walk, uint32_t node)
{
	if (node)
		walk->depth[row_of(walk, node)]--;
}

/* Not recursive, because the trace decides how deep stacks are. */
static void walk_tree(struct walk *walk)
{
	const struct tree *tree = walk->tree;
	for (uint32_t i = (uint32_t)tree->count; i-- > 1;) {
		walk->sibling[i] = walk->child[tree->node[i].parent];
		walk->child[tree->node[i].parent] = i;
	}
	uint32_t at = 0;
	enter(walk, 0);
	for (;;) {
		if (walk->child[at]) {
			at = walk->child[at];
			enter(walk, at);
			continue;
		}
		while (at && !walk->sibling[at]) {
			leave(walk, at);
			at = tree->node[at].parent;
		}
		if (!at)
			return;
		leave(walk, at);
		at = walk->sibling[at];
		enter(walk, at);
	}
}

static void name_rows(struct walk *walk)
{
	for (size_t i = 0; i < walk->groups->count; i++) {
		walk->row[i].key = walk->groups->group[i].frame;
		walk->row[i].name = walk->groups->group[i].name;
	}
	walk->row[walk->groups->count].key = BREAKDOWN_NO_STACK;
	walk->row[walk->groups->count + 1].key = BREAKDOWN_OTHER;
}

static struct ht_err *walk_begin(struct walk *walk)
{
	const size_t nodes = walk->tree->count;
	HT_TRY(view_own_sums(walk->view, walk->tree, &walk->own));
	walk->rows = walk->groups->count + 2;
	walk->total = calloc(nodes, sizeof(*walk->total));
	walk->child = calloc(nodes, sizeof(*walk->child));
	walk->sibling = calloc(nodes, sizeof(*walk->sibling));
	walk->depth = calloc(walk->rows, sizeof(*walk->depth));
	walk->row = calloc(walk->rows, sizeof(*walk->row));
	if (!walk->total || !walk->child || !walk->sibling || !walk->depth || !walk->row)
		return out_of_memory(nodes);
	tree_totals(walk->tree, walk->own, walk->total);
	return NULL;
}

/* `walk->row` stays; the caller has it. */
static void walk_end(struct walk *walk)
{
	free(walk->own);
	free(walk->total);
	free(walk->child);
	free(walk->sibling);
	free(walk->depth);
}

static void keep_figures(struct breakdown *breakdown, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		if (!sums_are_zero(&breakdown->row[i].own) ||
			!sums_are_zero(&breakdown->row[i].inclusive))
			breakdown->row[breakdown->count++] = breakdown->row[i];
}

static struct ht_err *walk_groups(
	const struct view *view, const struct tree *tree, struct breakdown *breakdown)
{
	struct walk walk = {.view = view, .tree = tree, .groups = &breakdown->groups};
	struct ht_err *err = walk_begin(&walk);
	breakdown->row = walk.row;
	breakdown->has_inclusive = true;
	if (!err) {
		name_rows(&walk);
		walk_tree(&walk);
		keep_figures(breakdown, walk.rows);
	}
	walk_end(&walk);
	return err;
}

/* A line's frames can be in several modules, an address is in one: modules need a tree of
 * addresses. */
static struct ht_err *find_by_address(const struct view *view, struct breakdown *breakdown)
{
	struct groups groups;
	struct tree tree;
	HT_TRY(groups_init(&groups, GROUPING_ADDRESS, &view->frames, view->analysis));
	struct ht_err *err = tree_init(
		&tree, view->analysis, &view->frames, &groups, view->query.shows_wrappers);
	if (!err) {
		err = walk_groups(view, &tree, breakdown);
		tree_deinit(&tree);
	}
	groups_deinit(&groups);
	return err;
}

static enum grouping grouping_of(enum breakdown_by by)
{
	switch (by) {
	case BREAKDOWN_LINE:
		return GROUPING_LINE;
	case BREAKDOWN_ADDRESS:
		return GROUPING_ADDRESS;
	case BREAKDOWN_MODULE:
		return GROUPING_MODULE;
	case BREAKDOWN_NAMESPACE:
		return GROUPING_NAMESPACE;
	case BREAKDOWN_FUNCTION:
	case BREAKDOWN_THREAD:
	case BREAKDOWN_SIZE:
	case BREAKDOWN_LIFETIME:
		break;
	}
	return GROUPING_FUNCTION;
}

static struct ht_err *find_by_frames(const struct view *view, struct breakdown *breakdown)
{
	const enum breakdown_by by = breakdown->by;
	HT_TRY(groups_init(&breakdown->groups, grouping_of(by), &view->frames, view->analysis));
	if (by == BREAKDOWN_ADDRESS || by == BREAKDOWN_MODULE)
		return find_by_address(view, breakdown);
	return walk_groups(view, &view->tree, breakdown);
}

/* --- by parts and lives ------------------------------------------------------------------------
 */

static struct ht_err *find_by_parts(
	const struct view *view, enum parts_by by, struct breakdown *breakdown)
{
	struct part *part;
	size_t count;
	HT_TRY(parts_find(view, by, &part, &count));
	breakdown->row = calloc(count + 1, sizeof(*breakdown->row));
	for (size_t i = 0; i < count && breakdown->row; i++)
		breakdown->row[breakdown->count++] =
			(struct breakdown_row){.key = part[i].key, .own = part[i].sums};
	free(part);
	return breakdown->row ? NULL : out_of_memory(count);
}

/* Up to a microsecond, then by powers of four. */
static uint32_t next_life(uint32_t life_class)
{
	return life_class ? life_class + 2 : LIFE_FIRST;
}

static void add_lives(
	struct breakdown *breakdown, const struct lifetimes *lifetimes, uint32_t life_class)
{
	uint64_t blocks = 0, bytes = 0;
	for (uint32_t i = life_class; i < next_life(life_class) && i < LIFETIMES_CLASSES; i++) {
		blocks += lifetimes->blocks[i];
		bytes += lifetimes->bytes[i];
	}
	if (blocks || bytes)
		breakdown->row[breakdown->count++] = (struct breakdown_row){.key = life_class,
			.own = {.allocations = blocks,
				.allocated_bytes = bytes,
				.frees = blocks,
				.freed_bytes = bytes}};
}

static struct ht_err *find_by_lives(const struct view *view, struct breakdown *breakdown)
{
	struct lifetimes lifetimes;
	const struct sums *total = &view->total;
	lifetimes_find(view, &lifetimes);
	breakdown->is_estimate = lifetimes.is_estimate;
	breakdown->row = calloc(LIFETIMES_CLASSES + 1, sizeof(*breakdown->row));
	if (!breakdown->row)
		return out_of_memory(LIFETIMES_CLASSES);
	for (uint32_t i = 0; i < LIFETIMES_CLASSES; i = next_life(i))
		add_lives(breakdown, &lifetimes, i);
	if (sums_outstanding_blocks(total) || sums_outstanding_bytes(total))
		breakdown->row[breakdown->count++] =
			(struct breakdown_row){.key = BREAKDOWN_LIFETIME_NEVER,
				.own = {.allocations = sums_outstanding_blocks(total),
					.allocated_bytes = sums_outstanding_bytes(total)}};
	return NULL;
}

uint64_t breakdown_life_from(uint32_t key)
{
	return key ? parts_size_from(key) : 0;
}

uint64_t breakdown_life_to(uint32_t key)
{
	const uint32_t last = next_life(key) - 1;
	return last < LIFETIMES_CLASSES ? parts_size_to(last) : UINT64_MAX;
}

/* --- order -------------------------------------------------------------------------------------
 */

struct order {
	enum metric metric;
	bool by_inclusive;
};

static int compare(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct breakdown_row *x = a, *y = b;
	const struct sums *sx = order->by_inclusive ? &x->inclusive : &x->own;
	const struct sums *sy = order->by_inclusive ? &y->inclusive : &y->own;
	const int64_t vx = metric_value(sx, order->metric), vy = metric_value(sy, order->metric);
	if (vx != vy)
		return vx > vy ? -1 : 1;
	if (sx->allocated_bytes != sy->allocated_bytes)
		return sx->allocated_bytes > sy->allocated_bytes ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

static struct ht_err *find_rows(const struct view *view, struct breakdown *breakdown)
{
	switch (breakdown->by) {
	case BREAKDOWN_THREAD:
		return find_by_parts(view, PARTS_THREAD, breakdown);
	case BREAKDOWN_SIZE:
		return find_by_parts(view, PARTS_SIZE, breakdown);
	case BREAKDOWN_LIFETIME:
		return find_by_lives(view, breakdown);
	case BREAKDOWN_FUNCTION:
	case BREAKDOWN_LINE:
	case BREAKDOWN_ADDRESS:
	case BREAKDOWN_MODULE:
	case BREAKDOWN_NAMESPACE:
		break;
	}
	return find_by_frames(view, breakdown);
}

struct ht_err *breakdown_find(const struct view *view, enum breakdown_by by, enum metric metric,
	bool by_inclusive, struct breakdown *ret)
{
	struct order order = {metric, by_inclusive};
	*ret = (struct breakdown){.by = by};
	struct ht_err *err = find_rows(view, ret);
	if (err) {
		breakdown_deinit(ret);
		return err;
	}
	order.by_inclusive = by_inclusive && ret->has_inclusive;
	if (by != BREAKDOWN_SIZE && by != BREAKDOWN_LIFETIME)
		qsort_r(ret->row, ret->count, sizeof(*ret->row), compare, &order);
	return NULL;
}
