/* SPDX-License-Identifier: Apache-2.0 */
#include "format/generations.h"

#include <stdlib.h>

#include "format/abi_control.h"
#include "format/array.h"

void generations_deinit(struct generations *generations)
{
	free(generations->until_tsc);
	free(generations->of_node);
	*generations = (struct generations){0};
}

struct ht_err *generations_take(struct generations *generations, const struct rec_scripts *rec)
{
	const uint64_t own = rec->generation;
	if (own > ABI_SCRIPTS_MAX)
		return NULL;
	HT_TRY(ARRAY_RESERVE(generations->until_tsc, generations->capacity, own + 1,
		"generations of functions"));
	if (generations->until_tsc[own] < rec->until_tsc)
		generations->until_tsc[own] = rec->until_tsc;
	return NULL;
}

struct ht_err *generations_note(
	struct generations *generations, uint32_t id, const struct rec_node *node)
{
	uint64_t own = node->flags & ABI_NODE_INTERPRETED ? node->pc >> TRACE_SCRIPTS_SHIFT : 0;
	/* `of_node` is allocated only for the first node with a generation. */
	if (!own && !generations->of_node)
		return NULL;
	HT_TRY(ARRAY_RESERVE(
		generations->of_node, generations->node_capacity, (size_t)id + 1, "stack nodes"));
	if (!own || own > ABI_SCRIPTS_MAX)
		own = generations_of(generations, node->parent);
	generations->of_node[id] = (uint16_t)own;
	return NULL;
}
