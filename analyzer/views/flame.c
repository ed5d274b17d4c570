/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/flame.h"

#include <stdlib.h>

#include "format/array.h"

struct build {
	struct flame *flame;
	const struct calls *calls;
	uint64_t *value; /* by node: sum of the positive own values at and below the node */
	uint64_t *next;	 /* by node: where its next child begins */
	uint64_t least;
	size_t limit; /* largest number of a node's children; 0: no limit */
};

static void add_up(const struct build *build)
{
	const struct calls *calls = build->calls;
	for (size_t i = 0; i < calls->tree.count; i++) {
		const int64_t own = calls->own[i].value;
		if (own > 0)
			build->value[i] = (uint64_t)own;
		else
			build->flame->negative += -(uint64_t)own;
	}
	for (size_t i = calls->tree.count; i-- > 1;)
		build->value[calls->tree.node[i].parent] += build->value[i];
}

static struct ht_err *add_box(struct build *build, uint32_t node, uint32_t depth, uint64_t start)
{
	struct flame *flame = build->flame;
	HT_TRY(array_reserve(&flame->box, &flame->capacity, flame->count + 1, sizeof(*flame->box),
		"boxes of a flame graph"));
	flame->box[flame->count++] = (struct flame_box){node, depth, start, build->value[node]};
	flame->depth = depth > flame->depth ? depth : flame->depth;
	build->next[node] = start;
	return NULL;
}

static bool has_box(const struct build *build, uint32_t node, uint32_t depth)
{
	return build->value[node] >= build->least && depth <= FLAME_DEPTH_MAX &&
	       build->flame->count < FLAME_BOXES_MAX;
}

/* Depth first: down by the order of children, back by parents. */
static struct ht_err *make_boxes(struct build *build)
{
	const struct calls *calls = build->calls;
	uint32_t *visited = calloc(calls->tree.count, sizeof(*visited));
	uint32_t at = 0, depth = 0;
	if (!visited)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a flame graph of %zu frames",
			calls->tree.count);
	struct ht_err *err = add_box(build, 0, 0, 0);
	while (!err) {
		const struct calls_children *children = &calls->children[at];
		if (visited[at] == children->count) {
			if (!at)
				break;
			at = calls->tree.node[at].parent;
			depth--;
			continue;
		}
		const uint32_t child = calls->child[children->first + visited[at]++];
		const uint64_t start = build->next[at];
		if (!build->value[child])
			continue;
		build->next[at] += build->value[child];
		const bool is_within = !build->limit || visited[at] <= build->limit;
		if (is_within && has_box(build, child, depth + 1)) {
			err = add_box(build, child, ++depth, start);
			at = child;
		} else {
			build->flame->left_out++;
		}
	}
	free(visited);
	return err;
}

/* Doubles the least value until all boxes fit, so that small boxes are dropped, not late ones. Uses
 * build->next for the depth of each node; later it holds starts. */
static void choose_least(struct build *build, double least_share)
{
	const struct tree *tree = &build->calls->tree;
	for (size_t i = 1; i < tree->count; i++)
		build->next[i] = build->next[tree->node[i].parent] + 1;
	build->least = (uint64_t)((double)build->value[0] * least_share);
	build->least += !build->least;
	for (;;) {
		size_t count = 0;
		for (size_t i = 0; i < tree->count; i++)
			count += build->value[i] >= build->least &&
				 build->next[i] <= FLAME_DEPTH_MAX;
		if (count <= FLAME_BOXES_MAX)
			return;
		build->least *= 2;
	}
}

struct ht_err *flame_init(
	struct flame *flame, const struct calls *calls, double least_share, size_t limit)
{
	const size_t nodes = calls->tree.count;
	struct build build = {
		.flame = flame,
		.calls = calls,
		.limit = limit,
		.value = calloc(nodes, sizeof(*build.value)),
		.next = calloc(nodes, sizeof(*build.next)),
	};
	struct ht_err *err = NULL;
	*flame = (struct flame){0};
	if (!build.value || !build.next) {
		err = ht_err_new(
			HT_ERR_NOMEM, "out of memory for a flame graph of %zu frames", nodes);
	} else {
		add_up(&build);
		flame->total = build.value[0];
		choose_least(&build, least_share);
	}
	HT_THEN(err, make_boxes(&build));
	free(build.value);
	free(build.next);
	if (err)
		flame_deinit(flame);
	return err;
}

void flame_deinit(struct flame *flame)
{
	free(flame->box);
	*flame = (struct flame){0};
}
