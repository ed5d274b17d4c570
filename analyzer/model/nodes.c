/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/nodes.h"

#include <stdlib.h>

#include "format/abi_control.h"

void nodes_deinit(struct nodes *nodes)
{
	free(nodes->node);
	*nodes = (struct nodes){0};
}

static struct ht_err *add(struct nodes *nodes, uint64_t id, const struct rec_node *rec)
{
	if (id == 0 || id >= NODES_MAX || rec->parent >= id) {
		nodes->rejected++;
		return NULL;
	}
	struct ht_err *err = array_reserve(
		&nodes->node, &nodes->capacity, id + 1, sizeof(*nodes->node), "stack nodes");
	if (err)
		return err;
	nodes->node[id] = (struct node){
		.pc = rec->pc,
		.parent = rec->parent,
		.epoch = rec->epoch,
		.flags = rec->flags,
		.known = true,
	};
	if (nodes->count <= id)
		nodes->count = (uint32_t)id + 1;
	return NULL;
}

struct ht_err *nodes_add(struct nodes *nodes, const struct rec_nodes *rec)
{
	struct bytes body = rec->body;
	for (uint64_t i = 0; i < rec->count; i++) {
		struct rec_node node;
		struct ht_err *err = rec_node_next(&body, &node);
		if (err && err->code == HT_ERR_FORMAT) {
			ht_err_free(err);
			nodes->rejected++;
			return NULL;
		}
		if (!err)
			err = add(nodes, rec->first_id + i, &node);
		if (err)
			return err;
	}
	return NULL;
}

const struct node *nodes_get(const struct nodes *nodes, uint32_t id)
{
	return id && id < nodes->count && nodes->node[id].known ? &nodes->node[id] : NULL;
}

uint64_t node_lookup_pc(const struct node *node)
{
	return node->flags & ABI_NODE_EXACT || !node->pc ? node->pc : node->pc - 1;
}
