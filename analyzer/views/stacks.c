/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/stacks.h"

#include <stdlib.h>

static int compare(const void *a, const void *b, void *context)
{
	const enum metric *metric = context;
	const struct stack *x = a, *y = b;
	const int order_of_sums = metric_compare(*metric, &x->sums, &y->sums);
	return order_of_sums ? order_of_sums : (x->node > y->node) - (x->node < y->node);
}

struct ht_err *stacks_find(
	const struct view *view, enum metric metric, struct stack **ret, size_t *ret_count)
{
	const struct cube *cube = &view->analysis->cube;
	struct map by_node = {0};
	struct ht_err *err = NULL;
	struct stack *stack = calloc(cube->site_count + 1, sizeof(*stack));
	if (!stack)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", cube->site_count);
	*ret_count = 0;
	for (size_t i = 0; i < cube->site_count && !err; i++) {
		const struct cube_site *site = &cube->site[i];
		uint32_t at;
		if (sums_are_zero(&view->sums[i]))
			continue;
		if (!map_get(&by_node, site->node, &at)) {
			at = (uint32_t)(*ret_count)++;
			stack[at].node = site->node;
			err = map_put(&by_node, site->node, at);
		}
		sums_add(&stack[at].sums, &view->sums[i]);
		/* The functions that folded stacks called are unknown. */
		if (site->node != CUBE_OTHER)
			stack[at].calls[cube_site_hook(site)] += view->sums[i].allocations;
	}
	map_deinit(&by_node);
	if (err) {
		free(stack);
		return err;
	}
	qsort_r(stack, *ret_count, sizeof(*stack), compare, &metric);
	*ret = stack;
	return NULL;
}

uint32_t stacks_site(const struct view *view, const struct stack *stack)
{
	return tree_leaf(&view->tree, &view->analysis->model.nodes, stack->node);
}

static bool is_passed_over(const struct view *view, uint32_t frame)
{
	const struct group *group = &view->groups.group[view->groups.of_frame[frame]];
	return group->is_wrapper || group->is_plumbing;
}

uint32_t stacks_wrappers(const struct view *view, const struct stack *stack)
{
	const struct nodes *nodes = &view->analysis->model.nodes;
	const struct node *node;
	uint32_t wrappers = 0;
	if (view->query.shows_wrappers)
		return 0;
	for (uint32_t id = stack->node; (node = nodes_get(nodes, id)); id = node->parent) {
		const struct frames_place place = frames_of(&view->frames, nodes_index(nodes, id));
		for (uint32_t i = 0; i < place.count; i++, wrappers++)
			if (!is_passed_over(view, place.first + i))
				return wrappers;
	}
	return 0;
}
