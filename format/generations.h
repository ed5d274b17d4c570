/* SPDX-License-Identifier: Apache-2.0
 *
 * Generations of interpreted functions: a node may hold the number of such a function
 * (rec_node.pc), and the numbers of one generation are valid until a common time.
 */
#pragma once

#include "format/record.h"

/* Zero-initialised is empty and valid. */
struct generations {
	uint64_t *until_tsc; /* by generation */
	size_t capacity;
	/* By node id: the generation of the interpreted functions in the node's stack; 0: the stack
	 * has no interpreted function, or none with a number. NULL: 0 for all. */
	uint16_t *of_node;
	size_t node_capacity;
};

void generations_deinit(struct generations *generations);
HT_MUST_CHECK
struct ht_err *generations_take(struct generations *generations, const struct rec_scripts *rec);
/* Notes the generation of a node, whose parent's id is less than `id`. Call it in the order of the
 * ids. */
HT_MUST_CHECK
struct ht_err *generations_note(
	struct generations *generations, uint32_t id, const struct rec_node *node);
static inline uint16_t generations_of(const struct generations *generations, uint32_t id)
{
	return id < generations->node_capacity ? generations->of_node[id] : 0;
}
/* Whether the numbers in the stack of node `id` are valid in an event of this time. */
static inline bool generations_hold(
	const struct generations *generations, uint32_t id, uint64_t tsc)
{
	const uint16_t own = generations_of(generations, id);
	return !own || (own < generations->capacity && tsc < generations->until_tsc[own]);
}
