/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/fold.h"

#include <stdlib.h>

#include "format/array.h"

/* Number of chains of a suspect that are never folded; further ones may be. */
#define CHAINS_OF_SUSPECT 64u

enum { IS_USED = 1, IS_SUSPECT = 2, IS_KEPT = 4 };

uint32_t fold_node(const struct view *view, uint32_t site)
{
	return tree_innermost(
		&view->tree, &view->analysis->model.nodes, view->analysis->cube.site[site].node);
}

static void mark_chain(const struct view *view, uint32_t node, uint8_t flag, uint8_t *mark)
{
	for (uint32_t at = node; at && !(mark[at] & flag); at = view->tree.node[at].parent)
		mark[at] |= flag;
}

static void mark_nodes(const struct view *view, const struct suspects *suspects, uint8_t *mark)
{
	for (uint32_t i = 0; i < view->analysis->cube.site_count; i++)
		if (view->row_of_site[i] != UINT32_MAX)
			mark_chain(view, fold_node(view, i), IS_USED, mark);
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspects_entry *entry = &suspects->entry[i];
		mark_chain(view, view->row[entry->row].node, IS_SUSPECT, mark);
		for (size_t k = 0; k < entry->chains && k < CHAINS_OF_SUSPECT; k++)
			mark_chain(view, view->row[suspects->member[entry->first + k]].node,
				IS_SUSPECT, mark);
	}
}

/* Lists of kept callees: `first` by caller, `next` by callee of the same caller; 0: none. */
struct callees {
	uint32_t *first, *next;
};

static void choose_nodes(struct fold *fold, const struct view *view, const struct sums *total,
	uint8_t *mark, const struct callees *callees)
{
	for (uint32_t i = (uint32_t)view->tree.count; --i;) {
		const bool is_large = total[i].allocated_bytes >= fold->least_bytes;
		const uint32_t parent = view->tree.node[i].parent;
		if (!(mark[i] & IS_USED && is_large) && !(mark[i] & IS_SUSPECT)) {
			fold->folded += mark[i] & IS_USED;
			continue;
		}
		mark[i] |= IS_KEPT;
		callees->next[i] = callees->first[parent];
		callees->first[parent] = i;
	}
}

/* Numbers the kept nodes. The caller of a kept node is kept too and gets a smaller number. */
static void number_nodes(struct fold *fold, const struct view *view, const uint8_t *mark,
	const struct callees *callees)
{
	const struct tree_node *node = view->tree.node;
	for (uint32_t at = 0;;) {
		fold->node[fold->count] = at;
		fold->page_of[at] = fold->count++;
		if (callees->first[at]) {
			at = callees->first[at];
			continue;
		}
		while (at && !callees->next[at])
			at = node[at].parent;
		if (!at)
			break;
		at = callees->next[at];
	}
	for (uint32_t i = 1; i < view->tree.count; i++)
		if (!(mark[i] & IS_KEPT))
			fold->page_of[i] = fold->page_of[node[i].parent];
}

struct ht_err *fold_init(struct fold *fold, const struct view *view,
	const struct suspects *suspects, uint64_t least_bytes)
{
	const size_t count = view->tree.count;
	HT_FREED struct sums *own = calloc(count, sizeof(*own));
	HT_FREED struct sums *total = calloc(count, sizeof(*total));
	HT_FREED uint8_t *mark = calloc(count, sizeof(*mark));
	HT_FREED uint32_t *first = calloc(count, sizeof(*first));
	HT_FREED uint32_t *next = calloc(count, sizeof(*next));
	const struct callees callees = {first, next};
	*fold = (struct fold){.page_of = calloc(count, sizeof(*fold->page_of)),
		.node = calloc(count, sizeof(*fold->node)),
		.least_bytes = least_bytes};
	if (!own || !total || !mark || !first || !next || !fold->page_of || !fold->node)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", count);
	for (uint32_t i = 0; i < view->analysis->cube.site_count; i++)
		sums_add(&own[fold_node(view, i)], &view->sums[i]);
	tree_totals(&view->tree, own, total);
	mark_nodes(view, suspects, mark);
	choose_nodes(fold, view, total, mark, &callees);
	number_nodes(fold, view, mark, &callees);
	return NULL;
}

void fold_deinit(struct fold *fold)
{
	free(fold->page_of);
	free(fold->node);
	*fold = (struct fold){0};
}
