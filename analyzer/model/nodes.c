/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/nodes.h"

#include <stdlib.h>

#include "format/abi_control.h"

void nodes_deinit(struct nodes *nodes)
{
	free(nodes->node);
	generations_deinit(&nodes->generations);
	free(nodes->plain);
	map_deinit(&nodes->plain_of);
	*nodes = (struct nodes){0};
}

static struct ht_err *add(struct nodes *nodes, uint64_t id, const struct rec_node *rec)
{
	if (id == 0 || id >= NODES_MAX || rec->parent >= id) {
		nodes->rejected++;
		return NULL;
	}
	HT_TRY(ARRAY_RESERVE(nodes->node, nodes->capacity, id + 1, "stack nodes"));
	nodes->node[id] = (struct node){
		.pc = rec->pc,
		.parent = rec->parent,
		.epoch = rec->epoch,
		.flags = rec->flags,
		.known = true,
	};
	if (nodes->count <= id)
		nodes->count = (uint32_t)id + 1;
	return generations_note(&nodes->generations, (uint32_t)id, rec);
}

struct ht_err *nodes_add(struct nodes *nodes, const struct rec_nodes *rec)
{
	struct bytes body = rec->body;
	for (uint64_t i = 0; i < rec->count; i++) {
		struct rec_node node;
		if (ht_err_drop(rec_node_next(&body, &node))) {
			nodes->rejected++;
			return NULL;
		}
		HT_TRY(add(nodes, rec->first_id + i, &node));
	}
	return NULL;
}

const struct node *nodes_get(const struct nodes *nodes, uint32_t id)
{
	if (id >= NODES_MAX)
		return id - NODES_MAX < nodes->plain_count ? &nodes->plain[id - NODES_MAX] : NULL;
	return id && id < nodes->count && nodes->node[id].known ? &nodes->node[id] : NULL;
}

/* Adds the plain copy of a node. Its caller must have a plain copy, or no interpreted function in
 * its stack. */
static struct ht_err *add_plain(struct nodes *nodes, uint32_t id)
{
	struct node node = *nodes_get(nodes, id);
	uint32_t caller;
	if (map_get(&nodes->plain_of, node.parent, &caller))
		node.parent = NODES_MAX + caller;
	if (node.flags & ABI_NODE_INTERPRETED)
		node.pc = 0;
	HT_TRY(ARRAY_RESERVE(nodes->plain, nodes->plain_capacity, (size_t)nodes->plain_count + 1,
		"stack nodes"));
	HT_TRY(map_put(&nodes->plain_of, id, nodes->plain_count));
	nodes->plain[nodes->plain_count++] = node;
	return NULL;
}

/* Copies inwards from the innermost frame that already has a plain copy or needs none. */
struct ht_err *nodes_plain(struct nodes *nodes, uint32_t id, uint32_t *ret)
{
	HT_FREED uint32_t *chain = NULL;
	size_t capacity = 0, depth = 0;
	uint32_t index;
	for (uint32_t at = id;
		generations_of(&nodes->generations, at) && !map_get(&nodes->plain_of, at, &index);
		at = nodes->node[at].parent) {
		HT_TRY(ARRAY_RESERVE(chain, capacity, depth + 1, "frames"));
		chain[depth++] = at;
	}
	while (depth > 0)
		HT_TRY(add_plain(nodes, chain[--depth]));
	*ret = map_get(&nodes->plain_of, id, &index) ? NODES_MAX + index : id;
	return NULL;
}

uint64_t node_lookup_pc(const struct node *node)
{
	return node->flags & ABI_NODE_EXACT || !node->pc ? node->pc : node->pc - 1;
}
