/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimiser that inlines a script's function into its caller makes one site look like two: first
 * the function allocates, then its caller does, in the same way.
 */
#pragma once

#include "analyzer/views/callers_key.h"
#include "analyzer/views/view.h"

/* Gives the rows of both sites one key. `script` is, by node, the innermost function of a script in
 * the chain, 0: there is none. */
HT_MUST_CHECK
struct ht_err *inlined_join(
	const struct view *view, const uint32_t *script, struct callers_key *key);
