/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree of a view: one grouping of frames and one metric, with own and inclusive values,
 * and the sorted children of each node. Top-down, a node's children are the functions that it
 * calls. Bottom-up, the root's children are the functions that allocated, and a node's children are
 * its callers.
 */
#pragma once

#include "analyzer/views/view.h"

/* Most nodes of a bottom-up tree; a full tree cuts chains. */
#define CALLS_NODES_MAX (1u << 22)
#define CALLS_DEPTH_MAX 1024u /* frames of a chain in a bottom-up tree */

struct calls_options {
	enum grouping grouping;
	bool is_bottom_up;
	enum metric metric;  /* a metric whose parts add up (calls_check) */
	enum metric sort;    /* decides the order of children */
	const bool *has_row; /* by row of the view, whether the tree contains it; NULL: all rows */
};

struct calls_children {
	uint32_t first, count; /* calls->child[first...] */
};

/* Arrays are indexed by node of the tree. Node 0 is the root; its own value is that of blocks
 * without a stack. */
struct calls {
	const struct view *view; /* borrowed */
	struct calls_options options;
	struct groups groups;
	struct tree tree;
	bool is_sample;	      /* the values are estimates; otherwise their variances are 0 */
	struct figure *own;   /* top-down: of stacks whose innermost frame is this node; bottom-up:
				   of stacks whose outermost frame is this node */
	struct figure *total; /* own value plus the own values of all nodes below */
	struct figure *order; /* totals in the metric options.sort, if it is not options.metric;
				   otherwise NULL */
	struct calls_children *children; /* children that have figures at or below them */
	uint32_t *child;
	uint64_t cut; /* number of cut chains in a bottom-up tree */
};

/* Refuses a metric, or a sort by a metric, whose parts do not add up or that a sample does not
 * give. The message names the option. */
HT_MUST_CHECK
struct ht_err *calls_check(const struct view *view, enum metric metric, enum metric sort);
HT_MUST_CHECK
struct ht_err *calls_init(
	struct calls *calls, const struct view *view, const struct calls_options *options);
void calls_deinit(struct calls *calls);
/* The frame that stands for a node; NULL: the root, or stacks that the cube folded. */
const struct frame *calls_frame(const struct calls *calls, uint32_t node);

/* Sums of a group of frames. A chain that contains the group several times counts once. */
struct calls_sum {
	struct figure own, inclusive;
};
/* The sums of a top-down tree, by group; freed by the caller. */
HT_MUST_CHECK
struct ht_err *calls_group_sums(const struct calls *calls, struct calls_sum **ret);
