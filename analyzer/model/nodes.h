/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack nodes of a trace: id -> (parent, pc, epoch, flags). A parent is always older than its
 * child, so that walking up from any id ends at the root.
 */
#pragma once

#include "analyzer/model/array.h"
#include "format/record.h"

#define NODES_MAX (1u << 24) /* ids are below: a stack reference has 24 bits */

struct node {
	uint64_t pc;
	uint32_t parent;
	uint16_t epoch;
	uint8_t flags; /* ABI_NODE_* */
	bool known;
};

/* Zero-initialised is empty and valid. Id 0 is the root and has no frame. */
struct nodes {
	struct node *node;
	size_t capacity;
	uint32_t count;	   /* highest known id + 1, or 0 */
	uint64_t rejected; /* with an id or a parent that cannot be */
};

void nodes_deinit(struct nodes *nodes);
/* Takes all nodes of one record; impossible ones are counted and left out. */
HT_MUST_CHECK
struct ht_err *nodes_add(struct nodes *nodes, const struct rec_nodes *rec);
/* The node, or NULL when `id` is 0 or unknown. */
const struct node *nodes_get(const struct nodes *nodes, uint32_t id);
/* The address to look `node` up by: a return address belongs to the call before it. */
uint64_t node_lookup_pc(const struct node *node);
