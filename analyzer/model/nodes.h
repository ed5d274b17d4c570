/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack nodes of a trace: id -> (parent, pc, epoch, flags). A parent's id is less than its
 * child's, so a walk from any id to its parents ends at the root.
 */
#pragma once

#include "format/array.h"
#include "format/generations.h"
#include "format/map.h"
#include "format/record.h"

#define NODES_MAX (1u << 24) /* ids are below this: a stack reference has 24 bits */

struct node {
	uint64_t pc;
	uint32_t parent;
	uint16_t epoch;
	uint8_t flags; /* ABI_NODE_*; with ABI_NODE_INTERPRETED pc is a number (record.h) */
	bool known;
};

/* Zero-initialised is empty and valid. Id 0 is the root and has no frame. */
struct nodes {
	struct node *node;
	size_t capacity;
	uint32_t count;	   /* highest known id + 1, or 0 */
	uint64_t rejected; /* nodes with an impossible id or parent */
	struct generations generations;
	/* Plain copies: nodes of stacks without the numbers of their interpreted functions. Their
	 * ids are NODES_MAX + index. */
	struct node *plain;
	size_t plain_capacity;
	uint32_t plain_count;
	struct map plain_of; /* node -> index */
};

void nodes_deinit(struct nodes *nodes);
/* Takes all nodes of one record; counts impossible ones and leaves them out. */
HT_MUST_CHECK
struct ht_err *nodes_add(struct nodes *nodes, const struct rec_nodes *rec);
/* The node; NULL if `id` is 0 or unknown. */
const struct node *nodes_get(const struct nodes *nodes, uint32_t id);
/* The plain copy of a stack, made if it does not exist. */
HT_MUST_CHECK
struct ht_err *nodes_plain(struct nodes *nodes, uint32_t id, uint32_t *ret);
/* A number below nodes_total for each node, less than the numbers of its callees; valid until the
 * next nodes_add. */
static inline uint32_t nodes_index(const struct nodes *nodes, uint32_t id)
{
	return id < NODES_MAX ? id : nodes->count + (id - NODES_MAX);
}
static inline uint32_t nodes_id(const struct nodes *nodes, uint32_t index)
{
	return index < nodes->count ? index : NODES_MAX + (index - nodes->count);
}
static inline uint32_t nodes_total(const struct nodes *nodes)
{
	return nodes->count + nodes->plain_count;
}
/* The address to look `node` up by: a return address belongs to the call before it. */
uint64_t node_lookup_pc(const struct node *node);
