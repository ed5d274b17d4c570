/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/calls.h"

#include <stdlib.h>
#include <string.h>

void calls_deinit(struct calls *calls)
{
	tree_deinit(&calls->tree);
	groups_deinit(&calls->groups);
	free(calls->own);
	free(calls->total);
	free(calls->order);
	free(calls->children);
	free(calls->child);
	*calls = (struct calls){0};
}

struct ht_err *calls_check(const struct view *view, enum metric metric, enum metric sort)
{
	if (metric == METRIC_LIFETIME || sort == METRIC_LIFETIME)
		return ht_err_new(HT_ERR_USAGE,
			"%s lifetime is a mean: those of callers and callees do not add up; see "
			"report --metric lifetime",
			metric == METRIC_LIFETIME ? "--metric" : "--sort");
	if (view->analysis->cube.sample_bytes &&
		(metric == METRIC_TEMPORARY || sort == METRIC_TEMPORARY))
		return ht_err_new(HT_ERR_USAGE,
			"the trace is a sample, which cannot show temporary allocations; use "
			"another --metric");
	return NULL;
}

static struct ht_err *out_of_memory(const struct tree *tree)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for a call tree of %zu frames", tree->count);
}

/* --- top-down ----------------------------------------------------------------------------------
 */

static bool has_site(const struct calls *calls, size_t site)
{
	const uint32_t row = calls->view->row_of_site[site];
	return row != UINT32_MAX && (!calls->options.has_row || calls->options.has_row[row]);
}

/* The own values of all nodes in a metric. */
static struct ht_err *own_values(const struct calls *calls, enum metric metric, struct figure **ret)
{
	const struct view *view = calls->view;
	*ret = calloc(calls->tree.count, sizeof(**ret));
	if (!*ret)
		return out_of_memory(&calls->tree);
	for (size_t i = 0; i < view->analysis->cube.site_count; i++) {
		if (!has_site(calls, i))
			continue;
		const uint32_t node = tree_leaf(&calls->tree, &view->analysis->model.nodes,
			view->analysis->cube.site[i].node);
		figure_add(&(*ret)[node], metric_figure(&view->sums[i], metric));
	}
	return NULL;
}

/* Adds each node's value to its parents. Children have higher numbers than their parents, so one
 * pass backwards suffices. */
static void add_up(const struct tree *tree, struct figure *value)
{
	for (size_t i = tree->count; i-- > 1;)
		figure_add(&value[tree->node[i].parent], value[i]);
}

/* --- bottom-up ---------------------------------------------------------------------------------
 */

/* The node of `tree` for the chain that begins at `node` of calls->tree. */
static struct ht_err *turn_chain(
	struct calls *calls, struct tree *tree, uint32_t node, uint32_t *ret)
{
	const struct tree *from = &calls->tree;
	struct ht_err *err = NULL;
	uint32_t depth = 0;
	*ret = 0;
	for (uint32_t at = node; at && !err; at = from->node[at].parent) {
		if (depth++ == CALLS_DEPTH_MAX || tree->count >= CALLS_NODES_MAX) {
			calls->cut++;
			break;
		}
		err = tree_step(tree, *ret, from->node[at].group, ret);
	}
	return err;
}

/* Moves `*value` from the nodes of calls->tree to the nodes of the turned tree. */
static struct ht_err *turn_values(const struct calls *calls, const struct tree *tree,
	const uint32_t *turned, struct figure **value)
{
	struct figure *new_value = calloc(tree->count, sizeof(*new_value));
	if (!new_value)
		return out_of_memory(tree);
	for (size_t i = 0; i < calls->tree.count; i++)
		figure_add(&new_value[turned[i]], (*value)[i]);
	free(*value);
	*value = new_value;
	return NULL;
}

/* Replaces the top-down tree by the bottom-up tree of the same chains. */
static struct ht_err *turn(struct calls *calls)
{
	struct tree tree = {.groups = &calls->groups};
	const size_t count = calls->tree.count;
	uint32_t root, *turned = calloc(count, sizeof(*turned));
	struct ht_err *err = turned ? tree_step(&tree, UINT32_MAX, UINT32_MAX, &root)
				    : out_of_memory(&calls->tree);
	if (!err)
		tree.node[0].parent = 0;
	for (uint32_t i = 1; i < count && !err; i++)
		if (calls->own[i].value || (calls->order && calls->order[i].value))
			err = turn_chain(calls, &tree, i, &turned[i]);
	HT_THEN(err, turn_values(calls, &tree, turned, &calls->own));
	if (!err && calls->order)
		err = turn_values(calls, &tree, turned, &calls->order);
	free(turned);
	if (err) {
		tree_deinit(&tree);
		return err;
	}
	tree_deinit(&calls->tree);
	calls->tree = tree;
	return NULL;
}

/* --- children ----------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b, void *context)
{
	const struct calls *calls = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct figure *total = calls->total, *order = calls->order ? calls->order : total;
	if (order[x].value != order[y].value)
		return order[x].value > order[y].value ? -1 : 1;
	if (total[x].value != total[y].value)
		return total[x].value > total[y].value ? -1 : 1;
	return (x > y) - (x < y);
}

/* Whether a node has figures at or below it; calls->children[node].count must be known. The total
 * does not show it: figures with different signs may add up to 0. */
static bool has_figures(const struct calls *calls, size_t node)
{
	return calls->own[node].value || calls->children[node].count;
}

static struct ht_err *find_children(struct calls *calls)
{
	const struct tree *tree = &calls->tree;
	struct calls_children *children = calls->children = calloc(tree->count, sizeof(*children));
	calls->child = calloc(tree->count, sizeof(*calls->child));
	if (!children || !calls->child)
		return out_of_memory(tree);
	/* Children have higher numbers than their parents. */
	for (size_t i = tree->count; i-- > 1;)
		children[tree->node[i].parent].count += has_figures(calls, i);
	for (uint32_t i = 0, end = 0; i < tree->count; i++) {
		end += children[i].count;
		children[i].first = end;
	}
	for (uint32_t i = (uint32_t)tree->count; i-- > 1;)
		if (has_figures(calls, i))
			calls->child[--children[tree->node[i].parent].first] = i;
	for (size_t i = 0; i < tree->count; i++)
		qsort_r(calls->child + children[i].first, children[i].count, sizeof(*calls->child),
			compare, calls);
	return NULL;
}

static struct ht_err *find_values(struct calls *calls)
{
	const struct calls_options *options = &calls->options;
	HT_TRY(own_values(calls, options->metric, &calls->own));
	if (options->sort != options->metric)
		HT_TRY(own_values(calls, options->sort, &calls->order));
	if (options->is_bottom_up)
		HT_TRY(turn(calls));
	calls->total = malloc(calls->tree.count * sizeof(*calls->total));
	if (!calls->total)
		return out_of_memory(&calls->tree);
	memcpy(calls->total, calls->own, calls->tree.count * sizeof(*calls->total));
	add_up(&calls->tree, calls->total);
	if (calls->order)
		add_up(&calls->tree, calls->order);
	return NULL;
}

struct ht_err *calls_init(
	struct calls *calls, const struct view *view, const struct calls_options *options)
{
	*calls = (struct calls){.view = view,
		.options = *options,
		.is_sample = view->analysis->cube.sample_bytes != 0};
	struct ht_err *err =
		groups_init(&calls->groups, options->grouping, &view->frames, view->analysis);
	HT_THEN(err, tree_init(&calls->tree, view->analysis, &view->frames, &calls->groups,
			     view->query.shows_wrappers));
	HT_THEN(err, find_values(calls));
	HT_THEN(err, find_children(calls));
	if (err)
		calls_deinit(calls);
	return err;
}

const struct frame *calls_frame(const struct calls *calls, uint32_t node)
{
	const uint32_t group = calls->tree.node[node].group;
	return group == UINT32_MAX ? NULL
				   : &calls->view->frames.frame[calls->groups.group[group].frame];
}

/* --- groups ------------------------------------------------------------------------------------
 */

struct group_sums {
	const struct calls *calls;
	struct calls_sum *sum; /* by group, the last is for folded stacks */
};

static void add_node(void *context, uint32_t node, size_t group, bool is_outermost)
{
	const struct group_sums *sums = context;
	if (!has_figures(sums->calls, node))
		return;
	figure_add(&sums->sum[group].own, sums->calls->own[node]);
	if (is_outermost)
		figure_add(&sums->sum[group].inclusive, sums->calls->total[node]);
}

struct ht_err *calls_group_sums(const struct calls *calls, struct calls_sum **ret)
{
	const size_t groups = calls->groups.count;
	struct group_sums sums = {calls, calloc(groups + 1, sizeof(*sums.sum))};
	if (!sums.sum)
		return out_of_memory(&calls->tree);
	struct ht_err *err = tree_visit(&calls->tree, NULL, groups, add_node, &sums);
	if (err)
		free(sums.sum);
	else
		*ret = sums.sum;
	return err;
}
