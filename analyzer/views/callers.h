/* SPDX-License-Identifier: Apache-2.0
 *
 * Which code called a site: what the second line of a site shows.
 */
#pragma once

#include "analyzer/views/callers_key.h"
#include "analyzer/views/view.h"

/* The frame of a node; NULL: the root, or stacks that were folded. */
const struct frame *callers_frame(const struct view *view, uint32_t node);
/* The next node towards the root with another function, preferably not of a library that only calls
 * back; 0: none. */
uint32_t callers_next(const struct view *view, uint32_t node);
/* The function of the user's script that calls a chain of the runtime's code; 0: none, or `node` is
 * in it. */
uint32_t callers_script(const struct view *view, uint32_t node);
/* The keys of all nodes of the tree, by node; freed by the caller. */
HT_MUST_CHECK
struct ht_err *callers_keys(const struct view *view, struct callers_key **ret);
/* An order of keys: 0 if they are equal. */
int callers_compare(const struct callers_key *a, const struct callers_key *b);
