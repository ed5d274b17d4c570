/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete a trace's names are: for each module, how many of the addresses in its stacks have a
 * function and a line, and how many allocations pass through it.
 */
#pragma once

#include "analyzer/cube/analysis.h"

struct named_module {
	uint32_t module; /* index; MODULES_NONE: code in no file */
	uint64_t allocations;
	uint32_t addresses, with_function, with_line; /* numbers of distinct addresses */
	uint32_t functions;			      /* number of distinct function names */
};

/* Zero-initialised is empty and valid. */
struct named {
	/* modules with an address in a stack, most allocations first */
	struct named_module *module;
	size_t count;
	size_t others; /* modules without such an address */
};

HT_MUST_CHECK
struct ht_err *named_find(const struct analysis *analysis, struct named *ret);
void named_deinit(struct named *named);
