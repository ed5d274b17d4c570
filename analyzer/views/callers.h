/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the code that called a site, which lists show with the site.
 */
#pragma once

#include "analyzer/views/callers_key.h"
#include "analyzer/views/view.h"

/* The frame of a node; NULL: the root, or stacks that were folded. */
const struct frame *callers_frame(const struct view *view, uint32_t node);
/* The nearest node towards the root that has another function and is no wrapper; if there is none,
 * the nearest one with another function. 0: none. */
uint32_t callers_next(const struct view *view, uint32_t node);
/* The innermost node of a function in the user's script, if the code at `node` is not itself such a
 * function; 0: `node` is in a script, or no script is in the chain. */
uint32_t callers_script(const struct view *view, uint32_t node);
/* The keys of all nodes of the tree, by node; freed by the caller. */
HT_MUST_CHECK
struct ht_err *callers_keys(const struct view *view, struct callers_key **ret);
/* Orders keys as qsort expects; 0 if they are equal. */
int callers_compare(const struct callers_key *a, const struct callers_key *b);
