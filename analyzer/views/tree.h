/* SPDX-License-Identifier: Apache-2.0
 *
 * All stacks of a trace as one tree of groups, without the frames that views omit. The root's
 * children are the outermost functions. Stacks that look the same end in the same node. Top-down,
 * bottom-up, callers, rows and flame graphs are walks of it.
 */
#pragma once

#include "analyzer/query/query.h"
#include "analyzer/views/frames.h"

struct tree_node {
	uint32_t parent; /* less than the node's own number; 0: the root */
	uint32_t group;	 /* UINT32_MAX: the root, or folded stacks */
};

/* Node 0 is the root. */
struct tree {
	const struct groups *groups;
	struct tree_node *node;
	size_t count, capacity;
	struct map by_step; /* (parent, group) -> node */
	uint32_t *leaf_of;  /* by nodes_index: the node of the stack that ends there */
	uint32_t *site_of;  /* by tree node: the node with which a display of its chain begins */
	uint32_t other;	    /* the node of the stacks merged into CUBE_OTHER; 0: none */
};

/* `shows_all`: chains have all frames. Otherwise plumbing (wrapper.h) and wrappers at the outer end
 * are omitted, and site_of skips wrappers at the inner end. If groups are modules or namespaces,
 * all wrappers are omitted. All arguments are borrowed. */
HT_MUST_CHECK
struct ht_err *tree_init(struct tree *tree, const struct analysis *analysis,
	const struct frames *frames, const struct groups *groups, bool shows_all);
void tree_deinit(struct tree *tree);
/* The node with which a display of a stack of the cube begins: its innermost frame that is not a
 * wrapper. 0: no stack. */
uint32_t tree_leaf(const struct tree *tree, const struct nodes *nodes, uint32_t stack);
/* The innermost node of a stack, wrappers included. */
uint32_t tree_innermost(const struct tree *tree, const struct nodes *nodes, uint32_t stack);
/* The child of `parent` for `group`, made if it does not exist. */
HT_MUST_CHECK
struct ht_err *tree_step(struct tree *tree, uint32_t parent, uint32_t group, uint32_t *ret);
/* Visits all nodes but the root, depth-first, siblings by number. `row`: of the node's group, by
 * `row_of_group` (NULL: the group's number); `rows` for folded stacks. `is_outermost`: no node
 * above has the same row. */
HT_MUST_CHECK
struct ht_err *tree_visit(const struct tree *tree, const uint32_t *row_of_group, size_t rows,
	void (*visit)(void *context, uint32_t node, size_t row, bool is_outermost), void *context);
/* Computes inclusive sums: total[node] is own[node] plus the own sums of all nodes below. `total`
 * has tree->count elements. */
void tree_totals(const struct tree *tree, const struct sums *own, struct sums *total);
