/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that say the same: a function of code that the program made (symbols without a module) has
 * a place for each call in it and for each time it was compiled, all with one name and line.
 */
#pragma once

#include "analyzer/cube/analysis.h"

/* Zero-initialised is empty and valid: each node is like itself alone. */
struct alike {
	uint32_t *first; /* by nodes_index: the first one of the same frames; NULL: there are no
			    such */
	uint32_t count;
	const struct nodes *nodes;
};

/* By the symbols that are known now. */
HT_MUST_CHECK
struct ht_err *alike_init(struct alike *alike, struct analysis *analysis);
void alike_deinit(struct alike *alike);

/* The node that stands for all that are like it. */
static inline uint32_t alike_first(const struct alike *alike, uint32_t node)
{
	uint32_t index = alike->count ? nodes_index(alike->nodes, node) : 0;
	return index < alike->count ? alike->first[index] : node;
}
