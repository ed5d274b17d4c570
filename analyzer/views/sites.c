/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/sites.h"

#include <stdlib.h>

#include "analyzer/model/array.h"
#include "analyzer/symbols/wrapper.h"

static uint32_t index_of(const struct sites *sites, uint32_t id)
{
	return nodes_index(&sites->analysis->model.nodes, id);
}

/* The frames of the place where `node` is. */
static struct ht_err *find_frames(const struct sites *sites, const struct node *node,
	const struct symbol_frame **ret, uint32_t *ret_count)
{
	struct place place;
	struct ht_err *err = place_of_node(&sites->analysis->model.modules, node, &place);
	if (!err)
		*ret = symbols_find(&sites->analysis->symbols, place, ret_count);
	return err;
}

/* Walks up from `leaf` to a node whose site is known, or is itself. The nodes on the way are
 * wrappers altogether; their frames are noted in `known`. `*ret`: that node, 0 behind the root. */
static struct ht_err *walk_up(struct sites *sites, uint32_t leaf, uint32_t *ret)
{
	const struct node *node;
	uint32_t id = leaf;
	for (; (node = nodes_get(&sites->analysis->model.nodes, id)); id = node->parent) {
		struct site_known *known = &sites->known[index_of(sites, id)];
		const struct symbol_frame *frame;
		uint32_t count;
		if (known->node)
			break;
		struct ht_err *err = find_frames(sites, node, &frame, &count);
		if (err)
			return err;
		known->wrappers = wrapper_count(frame, count);
		if (known->wrappers == 0 || known->wrappers < count) {
			known->node = id;
			break;
		}
	}
	*ret = node ? id : 0;
	return NULL;
}

static struct ht_err *learn(struct sites *sites, uint32_t leaf)
{
	const struct nodes *nodes = &sites->analysis->model.nodes;
	uint32_t end;
	struct ht_err *err = walk_up(sites, leaf, &end);
	if (err)
		return err;
	const struct site_known at_end =
		end ? sites->known[index_of(sites, end)] : (struct site_known){SITE_NONE, 0};
	uint32_t passed = 0;
	const struct node *node;
	for (uint32_t id = leaf; id != end && (node = nodes_get(nodes, id)); id = node->parent)
		passed += sites->known[index_of(sites, id)].wrappers;
	for (uint32_t id = leaf; id != end && (node = nodes_get(nodes, id)); id = node->parent) {
		uint32_t own = sites->known[index_of(sites, id)].wrappers;
		sites->known[index_of(sites, id)] =
			(struct site_known){at_end.node, at_end.wrappers + passed};
		passed -= own;
	}
	return NULL;
}

struct ht_err *sites_find(struct sites *sites, uint32_t leaf, struct site *ret)
{
	leaf = alike_first(&sites->alike, leaf);
	*ret = (struct site){.node = leaf};
	if (sites->shows_wrappers || !nodes_get(&sites->analysis->model.nodes, leaf))
		return NULL;
	struct ht_err *err = learn(sites, leaf);
	const struct site_known *known = &sites->known[index_of(sites, leaf)];
	if (err || known->node == SITE_NONE)
		return err;
	const struct symbol_frame *frame;
	uint32_t count;
	err = find_frames(
		sites, nodes_get(&sites->analysis->model.nodes, known->node), &frame, &count);
	if (!err)
		*ret = (struct site){alike_first(&sites->alike, known->node),
			wrapper_count(frame, count), known->wrappers};
	return err;
}

/* --- the sums of each site -----------------------------------------------------------------------
 */

static struct ht_err *add_up(struct sites *sites)
{
	const struct profile *profile = &sites->analysis->profile;
	struct map by_node = {0};
	struct ht_err *err = NULL;
	for (size_t i = 0; i < profile->stack_count && !err; i++) {
		const struct profile_stack *stack = &profile->stack[i];
		struct site site;
		uint32_t index = (uint32_t)sites->stack_count;
		err = sites_find(sites, stack->node, &site);
		if (!err && !map_get(&by_node, site.node, &index)) {
			err = map_put(&by_node, site.node, index);
			sites->stack[sites->stack_count++].node = site.node;
		}
		if (err)
			break;
		profile_stack_add(&sites->stack[index], stack);
		sites->has_skipped |= site.wrappers != 0;
	}
	map_deinit(&by_node);
	return err;
}

struct ht_err *sites_init(struct sites *sites, struct analysis *analysis, bool shows_wrappers)
{
	*sites = (struct sites){.analysis = analysis, .shows_wrappers = shows_wrappers};
	size_t capacity = 0;
	struct ht_err *err = alike_init(&sites->alike, analysis);
	if (!err)
		err = array_reserve(&sites->known, &sites->known_capacity,
			(size_t)nodes_total(&analysis->model.nodes) + 1, sizeof(*sites->known),
			"stack nodes");
	if (!err)
		err = array_reserve(&sites->stack, &capacity, analysis->profile.stack_count + 1,
			sizeof(*sites->stack), "sites");
	if (!err)
		err = add_up(sites);
	if (err)
		sites_deinit(sites);
	return err;
}

void sites_deinit(struct sites *sites)
{
	alike_deinit(&sites->alike);
	free(sites->known);
	free(sites->stack);
	*sites = (struct sites){0};
}
