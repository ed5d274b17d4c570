/* SPDX-License-Identifier: Apache-2.0
 *
 * All stacks of a trace as one tree of what is shown: the root's children are outermost functions.
 * Stacks that read the same end in the same node. Top-down, bottom-up, callers, rows and flame
 * graphs are walks of it.
 */
#pragma once

#include "analyzer/query/query.h"
#include "analyzer/views/frames.h"

struct tree_node {
	uint32_t parent; /* less than the node's own number; 0: the root */
	uint32_t group;	 /* of the root: UINT32_MAX */
};

/* Node 0 is the root. */
struct tree {
	const struct groups *groups;
	struct tree_node *node;
	size_t count, capacity;
	struct map by_step; /* (parent, group) -> node */
	uint32_t *leaf_of;  /* by nodes_index: the node of the stack that ends there */
	uint32_t *site_of;  /* by tree node: where its chain is shown to begin */
	uint32_t other;	    /* the node of folded stacks (CUBE_OTHER); 0: there are none */
};

/* `shows_all`: nothing is left out of a chain. Otherwise plumbing (wrapper.h) is, and a chain
 * begins with the first frame that does not only pass allocations on. Everything is borrowed. */
HT_MUST_CHECK
struct ht_err *tree_init(struct tree *tree, const struct analysis *analysis,
	const struct frames *frames, const struct groups *groups, bool shows_all);
void tree_deinit(struct tree *tree);
/* The node where the stack of a cube's site is shown to begin. 0: it has no stack. */
uint32_t tree_leaf(const struct tree *tree, const struct nodes *nodes, uint32_t stack);
/* The same with the wrappers that the allocation went through: its innermost node. */
uint32_t tree_innermost(const struct tree *tree, const struct nodes *nodes, uint32_t stack);
/* The child of `parent` for `group`, made on first sight. */
HT_MUST_CHECK
struct ht_err *tree_step(struct tree *tree, uint32_t parent, uint32_t group, uint32_t *ret);
/* Adds up inclusive sums: total[node] is own[node] and all that lies below. `total` has room for
 * tree->count. */
void tree_totals(const struct tree *tree, const struct sums *own, struct sums *total);
