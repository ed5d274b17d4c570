/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/tree.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/wrapper.h"

void tree_deinit(struct tree *tree)
{
	free(tree->node);
	free(tree->leaf_of);
	free(tree->site_of);
	map_deinit(&tree->by_step);
	*tree = (struct tree){0};
}

struct ht_err *tree_step(struct tree *tree, uint32_t parent, uint32_t group, uint32_t *ret)
{
	const uint64_t key = (uint64_t)parent << 32 | group;
	if (map_get(&tree->by_step, key, ret))
		return NULL;
	HT_TRY(array_reserve(
		&tree->node, &tree->capacity, tree->count + 1, sizeof(*tree->node), "frames"));
	*ret = (uint32_t)tree->count++;
	tree->node[*ret] = (struct tree_node){.parent = parent, .group = group};
	return map_put(&tree->by_step, key, *ret);
}

/* Whether a frame is omitted from a chain. `is_root`: it would be the outermost frame, where
 * wrappers are omitted too. */
static bool is_left_out(const struct group *group, bool is_root)
{
	return group->is_plumbing || (is_root && group->is_wrapper);
}

struct build {
	struct tree *tree;
	const struct frames *frames;
	const struct nodes *nodes;
	bool shows_all;
	bool *is_passed_over; /* by frame, where groups are modules or namespaces */
};

/* A module or namespace contains omitted frames and others, so frames are omitted one by one
 * instead of by group. */
static struct ht_err *find_passed_over(struct build *build)
{
	const struct frames *frames = build->frames;
	if (!groups_are_coarse(build->tree->groups))
		return NULL;
	build->is_passed_over = calloc(frames->count + 1, sizeof(*build->is_passed_over));
	if (!build->is_passed_over)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", frames->count);
	for (size_t i = 0; i < frames->count && !build->shows_all; i++)
		build->is_passed_over[i] = wrapper_is(frames->frame[i].function) ||
					   wrapper_is_plumbing(frames->frame[i].function);
	return NULL;
}

static struct ht_err *add_frame(struct build *build, uint32_t frame, uint32_t *at)
{
	const struct tree *tree = build->tree;
	const uint32_t group = tree->groups->of_frame[frame];
	if (build->is_passed_over) {
		if (build->is_passed_over[frame] || (*at && tree->node[*at].group == group))
			return NULL;
	} else if (!build->shows_all && is_left_out(&tree->groups->group[group], *at == 0)) {
		return NULL;
	}
	return tree_step(build->tree, *at, group, at);
}

static struct ht_err *add_node(struct build *build, uint32_t index)
{
	const struct node *node = nodes_get(build->nodes, nodes_id(build->nodes, index));
	struct tree *tree = build->tree;
	struct ht_err *err = NULL;
	if (!node)
		return NULL;
	uint32_t at = node->parent ? tree->leaf_of[nodes_index(build->nodes, node->parent)] : 0;
	const struct frames_place place = frames_of(build->frames, index);
	for (uint32_t i = place.count; i-- > 0 && !err;)
		err = add_frame(build, place.first + i, &at);
	tree->leaf_of[index] = at;
	return err;
}

/* If all frames of a stack are omitted, keeps its innermost frame. */
static struct ht_err *mend_empty(struct build *build, uint32_t index)
{
	struct tree *tree = build->tree;
	const struct frames_place place = frames_of(build->frames, index);
	if (!place.count || tree->leaf_of[index])
		return NULL;
	return tree_step(tree, 0, tree->groups->of_frame[place.first], &tree->leaf_of[index]);
}

/* Parents have lower numbers, so a parent's site is known before its children need it. */
static struct ht_err *find_sites(struct tree *tree, bool shows_all)
{
	tree->site_of = calloc(tree->count, sizeof(*tree->site_of));
	if (!tree->site_of)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", tree->count);
	/* A chain of nothing but wrappers gets 0 here, and itself below: it is shown in full. */
	for (uint32_t i = 1; i < tree->count; i++)
		tree->site_of[i] =
			!shows_all && tree->node[i].group != UINT32_MAX &&
					tree->groups->group[tree->node[i].group].is_wrapper
				? tree->site_of[tree->node[i].parent]
				: i;
	for (uint32_t i = 1; i < tree->count; i++)
		if (!tree->site_of[i])
			tree->site_of[i] = i;
	return NULL;
}

struct ht_err *tree_init(struct tree *tree, const struct analysis *analysis,
	const struct frames *frames, const struct groups *groups, bool shows_all)
{
	const struct nodes *nodes = &analysis->model.nodes;
	const uint32_t count = nodes_total(nodes);
	struct build build = {
		.tree = tree, .frames = frames, .nodes = nodes, .shows_all = shows_all};
	uint32_t root;
	*tree = (struct tree){.groups = groups};
	tree->leaf_of = calloc((size_t)count + 1, sizeof(*tree->leaf_of));
	struct ht_err *err = NULL;
	if (!tree->leaf_of)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %u stack nodes", count);
	HT_THEN(err, find_passed_over(&build));
	HT_THEN(err, tree_step(tree, UINT32_MAX, UINT32_MAX, &root));
	for (uint32_t i = 0; i < count && !err; i++)
		err = add_node(&build, i);
	for (uint32_t i = 0; i < count && !err; i++)
		err = mend_empty(&build, i);
	if (!err && analysis->cube.other)
		err = tree_step(tree, 0, UINT32_MAX, &tree->other);
	HT_THEN(err, find_sites(tree, shows_all || groups_are_coarse(groups)));
	free(build.is_passed_over);
	if (err)
		tree_deinit(tree);
	else
		tree->node[0].parent = 0;
	return err;
}

uint32_t tree_innermost(const struct tree *tree, const struct nodes *nodes, uint32_t stack)
{
	if (stack == CUBE_OTHER)
		return tree->other;
	if (!stack || nodes_index(nodes, stack) >= nodes_total(nodes))
		return 0;
	return tree->leaf_of[nodes_index(nodes, stack)];
}

uint32_t tree_leaf(const struct tree *tree, const struct nodes *nodes, uint32_t stack)
{
	return tree->site_of[tree_innermost(tree, nodes, stack)];
}

static size_t row_of(
	const struct tree *tree, const uint32_t *row_of_group, size_t rows, uint32_t node)
{
	const uint32_t group = tree->node[node].group;
	if (group == UINT32_MAX)
		return rows;
	return row_of_group ? row_of_group[group] : group;
}

/* Not recursive, because the trace decides how deep stacks are. */
struct ht_err *tree_visit(const struct tree *tree, const uint32_t *row_of_group, size_t rows,
	void (*visit)(void *context, uint32_t node, size_t row, bool is_outermost), void *context)
{
	/* First child and next sibling by node, 0: none; number of nodes above by row. */
	uint32_t *child = calloc(2 * tree->count + rows + 1, sizeof(*child));
	if (!child)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", tree->count);
	uint32_t *sibling = child + tree->count, *above = sibling + tree->count;
	for (uint32_t i = (uint32_t)tree->count; i-- > 1;) {
		sibling[i] = child[tree->node[i].parent];
		child[tree->node[i].parent] = i;
	}
	for (uint32_t at = child[0]; at;) {
		const size_t row = row_of(tree, row_of_group, rows, at);
		visit(context, at, row, !above[row]++);
		if (child[at]) {
			at = child[at];
			continue;
		}
		while (at) {
			above[row_of(tree, row_of_group, rows, at)]--;
			if (sibling[at])
				break;
			at = tree->node[at].parent;
		}
		at = sibling[at];
	}
	free(child);
	return NULL;
}

void tree_totals(const struct tree *tree, const struct sums *own, struct sums *total)
{
	memcpy(total, own, tree->count * sizeof(*total));
	for (uint32_t i = (uint32_t)tree->count; i-- > 1;)
		sums_add(&total[tree->node[i].parent], &total[i]);
}
