/* SPDX-License-Identifier: Apache-2.0
 *
 * Which nodes of a view's tree the page has. A node that is folded gives what it has to its caller,
 * so that sums stay what they are.
 */
#pragma once

#include "analyzer/views/suspects.h"
#include "analyzer/views/view.h"

struct fold {
	uint32_t *page_of; /* by node of the view's tree: node of the page; 0: the root */
	uint32_t *node;	   /* by node of the page: node of the view's tree; each is followed by
			    * what it calls */
	uint32_t count;
	uint32_t folded;      /* nodes with figures that the page does not have */
	uint64_t least_bytes; /* what a node has to have allocated; 0: all are there */
};

/* The node of the view's tree where the page has a site of the cube: with its wrappers. */
uint32_t fold_node(const struct view *view, uint32_t site);
/* Keeps what allocated `least_bytes` in the window, itself or through what it calls, and the chains
 * of `suspects`. */
HT_MUST_CHECK
struct ht_err *fold_init(struct fold *fold, const struct view *view,
	const struct suspects *suspects, uint64_t least_bytes);
void fold_deinit(struct fold *fold);
