/* SPDX-License-Identifier: Apache-2.0
 *
 * When an optimiser inlines a script's function into its caller, one site looks like two: until
 * then the function allocates, from then on its caller does, with the same native function.
 */
#pragma once

#include "analyzer/views/callers_key.h"
#include "analyzer/views/view.h"

/* Gives the rows of two such sites the same key. `script` is, by node, the node of the innermost
 * script function in the chain; 0: none. */
HT_MUST_CHECK
struct ht_err *inlined_join(
	const struct view *view, const uint32_t *script, struct callers_key *key);
