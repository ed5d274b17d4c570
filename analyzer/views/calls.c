/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/calls.h"

#include <stdlib.h>

void calls_deinit(struct calls *calls)
{
	tree_deinit(&calls->tree);
	groups_deinit(&calls->groups);
	free(calls->own);
	free(calls->total);
	free(calls->order);
	free(calls->own_variance);
	free(calls->total_variance);
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

static struct ht_err *own_values(const struct calls *calls, enum metric metric, int64_t **ret)
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
		(*ret)[node] += metric_value(&view->sums[i], metric);
	}
	return NULL;
}

static struct ht_err *own_variances(struct calls *calls)
{
	const struct view *view = calls->view;
	calls->own_variance = calloc(calls->tree.count, sizeof(*calls->own_variance));
	if (!calls->own_variance)
		return out_of_memory(&calls->tree);
	for (size_t i = 0; i < view->analysis->cube.site_count; i++) {
		if (!has_site(calls, i))
			continue;
		const uint32_t node = tree_leaf(&calls->tree, &view->analysis->model.nodes,
			view->analysis->cube.site[i].node);
		calls->own_variance[node] += (double)view->sums[i].variance[calls->options.metric];
	}
	return NULL;
}

/* `own_variance` must be set. */
static struct ht_err *total_variances(struct calls *calls)
{
	const struct tree *tree = &calls->tree;
	calls->total_variance = malloc(tree->count * sizeof(*calls->total_variance));
	if (!calls->total_variance)
		return out_of_memory(tree);
	for (size_t i = 0; i < tree->count; i++)
		calls->total_variance[i] = calls->own_variance[i];
	for (size_t i = tree->count; i-- > 1;)
		calls->total_variance[tree->node[i].parent] += calls->total_variance[i];
	return NULL;
}

int64_t calls_bound(const struct calls *calls, uint32_t node, bool is_own)
{
	if (!calls->total_variance)
		return 0;
	return is_own ? metric_bound_of(calls->own[node], calls->own_variance[node])
		      : metric_bound_of(calls->total[node], calls->total_variance[node]);
}

/* Adds each node's value to its parents. Children have higher numbers than their parents, so one
 * pass backwards suffices. */
static void add_up(const struct tree *tree, int64_t *value)
{
	for (size_t i = tree->count; i-- > 1;)
		value[tree->node[i].parent] += value[i];
}

static struct ht_err *copy_of(const struct tree *tree, const int64_t *value, int64_t **ret)
{
	*ret = malloc(tree->count * sizeof(**ret));
	if (!*ret)
		return out_of_memory(tree);
	for (size_t i = 0; i < tree->count; i++)
		(*ret)[i] = value[i];
	return NULL;
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
static struct ht_err *turn_values(
	const struct calls *calls, const struct tree *tree, const uint32_t *turned, int64_t **value)
{
	int64_t *new_value = calloc(tree->count, sizeof(*new_value));
	if (!new_value)
		return out_of_memory(tree);
	for (size_t i = 0; i < calls->tree.count; i++)
		new_value[turned[i]] += (*value)[i];
	free(*value);
	*value = new_value;
	return NULL;
}

static struct ht_err *turn_variances(
	struct calls *calls, const struct tree *tree, const uint32_t *turned)
{
	double *variance = calloc(tree->count, sizeof(*variance));
	if (!variance)
		return out_of_memory(tree);
	for (size_t i = 0; i < calls->tree.count; i++)
		variance[turned[i]] += calls->own_variance[i];
	free(calls->own_variance);
	calls->own_variance = variance;
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
		if (calls->own[i] || (calls->order && calls->order[i]))
			err = turn_chain(calls, &tree, i, &turned[i]);
	HT_THEN(err, turn_values(calls, &tree, turned, &calls->own));
	if (!err && calls->order)
		err = turn_values(calls, &tree, turned, &calls->order);
	if (!err && calls->own_variance)
		err = turn_variances(calls, &tree, turned);
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
	const int64_t *value = calls->order ? calls->order : calls->total;
	if (value[x] != value[y])
		return value[x] > value[y] ? -1 : 1;
	if (calls->total[x] != calls->total[y])
		return calls->total[x] > calls->total[y] ? -1 : 1;
	return (x > y) - (x < y);
}

/* Marks the nodes with figures at or below them. The total does not show it: figures with different
 * signs may add up to 0. */
static struct ht_err *find_figures(const struct calls *calls, bool **ret)
{
	const struct tree *tree = &calls->tree;
	*ret = calloc(tree->count, sizeof(**ret));
	if (!*ret)
		return out_of_memory(tree);
	for (size_t i = tree->count; i-- > 1;) {
		(*ret)[i] |= calls->own[i] != 0;
		(*ret)[tree->node[i].parent] |= (*ret)[i];
	}
	return NULL;
}

static void list_children(struct calls *calls, const bool *has_figures)
{
	const struct tree *tree = &calls->tree;
	uint32_t first = 0;
	for (size_t i = 1; i < tree->count; i++)
		calls->children[tree->node[i].parent].count += has_figures[i];
	for (size_t i = 0; i < tree->count; i++) {
		calls->children[i].first = first;
		first += calls->children[i].count;
		calls->children[i].count = 0;
	}
	for (uint32_t i = 1; i < tree->count; i++) {
		struct calls_children *children = &calls->children[tree->node[i].parent];
		if (has_figures[i])
			calls->child[children->first + children->count++] = i;
	}
	for (size_t i = 0; i < tree->count; i++)
		qsort_r(calls->child + calls->children[i].first, calls->children[i].count,
			sizeof(*calls->child), compare, calls);
}

static struct ht_err *find_children(struct calls *calls)
{
	bool *has_figures;
	struct ht_err *err = find_figures(calls, &has_figures);
	if (err)
		return err;
	calls->children = calloc(calls->tree.count, sizeof(*calls->children));
	calls->child = calloc(calls->tree.count, sizeof(*calls->child));
	if (calls->children && calls->child)
		list_children(calls, has_figures);
	else
		err = out_of_memory(&calls->tree);
	free(has_figures);
	return err;
}

static struct ht_err *find_values(struct calls *calls)
{
	const struct calls_options *options = &calls->options;
	struct ht_err *err = own_values(calls, options->metric, &calls->own);
	if (!err && options->sort != options->metric)
		err = own_values(calls, options->sort, &calls->order);
	const bool is_sample = calls->view->analysis->cube.sample_bytes != 0;
	if (!err && is_sample)
		err = own_variances(calls);
	if (!err && options->is_bottom_up)
		err = turn(calls);
	if (!err && is_sample)
		err = total_variances(calls);
	HT_THEN(err, copy_of(&calls->tree, calls->own, &calls->total));
	if (err)
		return err;
	add_up(&calls->tree, calls->total);
	if (calls->order)
		add_up(&calls->tree, calls->order);
	return NULL;
}

struct ht_err *calls_init(
	struct calls *calls, const struct view *view, const struct calls_options *options)
{
	*calls = (struct calls){.view = view, .options = *options};
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

/* A depth-first walk without a stack: it goes back by parents. */
struct walk {
	const struct calls *calls;
	uint32_t *next;	       /* by node: the child to visit next */
	uint32_t *on_path;     /* by group: how often it occurs between root and node */
	struct calls_sum *sum; /* by group */
};

static void enter(const struct walk *walk, uint32_t node)
{
	const struct calls *calls = walk->calls;
	const uint32_t group = calls->tree.node[node].group;
	if (group == UINT32_MAX)
		return;
	struct calls_sum *sum = &walk->sum[group];
	const bool is_outermost = !walk->on_path[group]++;
	sum->own += calls->own[node];
	sum->inclusive += is_outermost ? calls->total[node] : 0;
	if (!calls->total_variance)
		return;
	sum->own_variance += calls->own_variance[node];
	sum->inclusive_variance += is_outermost ? calls->total_variance[node] : 0;
}

static void leave(const struct walk *walk, uint32_t node)
{
	const uint32_t group = walk->calls->tree.node[node].group;
	if (group != UINT32_MAX)
		walk->on_path[group]--;
}

static void walk_all(const struct walk *walk)
{
	const struct calls *calls = walk->calls;
	uint32_t at = 0;
	for (;;) {
		const struct calls_children *children = &calls->children[at];
		if (walk->next[at] < children->count) {
			at = calls->child[children->first + walk->next[at]++];
			enter(walk, at);
		} else if (at) {
			leave(walk, at);
			at = calls->tree.node[at].parent;
		} else {
			return;
		}
	}
}

struct ht_err *calls_group_sums(const struct calls *calls, struct calls_sum **ret)
{
	const size_t groups = calls->groups.count + 1;
	struct walk walk = {
		.calls = calls,
		.next = calloc(calls->tree.count, sizeof(*walk.next)),
		.on_path = calloc(groups, sizeof(*walk.on_path)),
		.sum = calloc(groups, sizeof(*walk.sum)),
	};
	const bool has_memory = walk.next && walk.on_path && walk.sum;
	if (has_memory)
		walk_all(&walk);
	free(walk.next);
	free(walk.on_path);
	if (!has_memory) {
		free(walk.sum);
		return out_of_memory(&calls->tree);
	}
	*ret = walk.sum;
	return NULL;
}
