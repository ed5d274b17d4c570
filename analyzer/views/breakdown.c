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

/* The nodes of a tree, and the rows to which add_node adds them: one row for each group of
 * `breakdown->groups`, then one for blocks without a stack, and one for folded stacks. */
struct walk {
	struct sums *own, *total; /* by node */
	struct breakdown_row *row;
	uint32_t *row_of; /* by group of the tree */
};

static void add_node(void *context, uint32_t node, size_t row, bool is_outermost)
{
	const struct walk *walk = context;
	sums_add(&walk->row[row].own, &walk->own[node]);
	if (is_outermost)
		sums_add(&walk->row[row].inclusive, &walk->total[node]);
}

static struct ht_err *fill_rows(
	const struct walk *walk, const struct tree *tree, const struct groups *groups)
{
	const size_t count = groups->count;
	for (size_t i = 0; i < count; i++) {
		walk->row[i].key = groups->group[i].frame;
		walk->row[i].name = groups->group[i].name;
	}
	for (size_t i = 0; i < tree->groups->count; i++)
		walk->row_of[i] = groups->of_frame[tree->groups->group[i].frame];
	tree_totals(tree, walk->own, walk->total);
	/* All stacks lie below the root: its total would count them too. */
	walk->row[count] = (struct breakdown_row){
		.key = BREAKDOWN_NO_STACK, .own = walk->own[0], .inclusive = walk->own[0]};
	walk->row[count + 1].key = BREAKDOWN_OTHER;
	return tree_visit(tree, walk->row_of, count + 1, add_node, (void *)(uintptr_t)walk);
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
	const size_t rows = breakdown->groups.count + 2;
	struct walk walk = {
		.total = calloc(tree->count, sizeof(*walk.total)),
		.row = breakdown->row = calloc(rows, sizeof(*walk.row)),
		.row_of = calloc(tree->groups->count + 1, sizeof(*walk.row_of)),
	};
	struct ht_err *err = view_own_sums(view, tree, &walk.own);
	if (!err && (!walk.total || !walk.row || !walk.row_of))
		err = out_of_memory(tree->count);
	breakdown->has_inclusive = true;
	HT_THEN(err, fill_rows(&walk, tree, &breakdown->groups));
	if (!err)
		keep_figures(breakdown, rows);
	free(walk.own);
	free(walk.total);
	free(walk.row_of);
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

static struct ht_err *find_by_frames(const struct view *view, struct breakdown *breakdown)
{
	static const enum grouping grouping[] = {
		[BREAKDOWN_FUNCTION] = GROUPING_FUNCTION,
		[BREAKDOWN_LINE] = GROUPING_LINE,
		[BREAKDOWN_ADDRESS] = GROUPING_ADDRESS,
		[BREAKDOWN_MODULE] = GROUPING_MODULE,
		[BREAKDOWN_NAMESPACE] = GROUPING_NAMESPACE,
	};
	const enum breakdown_by by = breakdown->by;
	HT_TRY(groups_init(&breakdown->groups, grouping[by], &view->frames, view->analysis));
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
	const int order_of_sums = metric_compare(order->metric, sx, sy);
	return order_of_sums ? order_of_sums : (x->key > y->key) - (x->key < y->key);
}

static struct ht_err *find_rows(const struct view *view, struct breakdown *breakdown)
{
	if (breakdown->by == BREAKDOWN_THREAD)
		return find_by_parts(view, PARTS_THREAD, breakdown);
	if (breakdown->by == BREAKDOWN_SIZE)
		return find_by_parts(view, PARTS_SIZE, breakdown);
	return breakdown->by == BREAKDOWN_LIFETIME ? find_by_lives(view, breakdown)
						   : find_by_frames(view, breakdown);
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
