/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the nodes of a view's tree for the page. The figures of a folded node are added to its
 * caller, so sums stay the same.
 */
#pragma once

#include "analyzer/views/suspects.h"
#include "analyzer/views/view.h"

struct fold {
	uint32_t *page_of; /* by node of the view's tree: node of the page; 0: the root */
	uint32_t *node; /* by node of the page: node of the view's tree; callers precede callees */
	uint32_t count;
	uint32_t folded;      /* number of nodes with figures that the page lacks */
	uint64_t least_bytes; /* least allocated bytes of a node on the page; 0: no limit */
};

/* The node of the view's tree at which the page shows a site of the cube, wrappers included. */
uint32_t fold_node(const struct view *view, uint32_t site);
/* Keeps nodes that allocated at least `least_bytes` in the window, callees included, and of each
 * suspect the first 64 chains. Call fold_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *fold_init(struct fold *fold, const struct view *view,
	const struct suspects *suspects, uint64_t least_bytes);
void fold_deinit(struct fold *fold);
