/* SPDX-License-Identifier: Apache-2.0
 *
 * Which code called a site: what the second line of a site shows.
 */
#pragma once

#include "analyzer/views/view.h"

/* The frame of a node; NULL: the root, or stacks that were folded. */
const struct frame *callers_frame(const struct view *view, uint32_t node);
/* The next node towards the root that is another function; 0: there is none. */
uint32_t callers_next(const struct view *view, uint32_t node);
/* The function of the user's script that a chain of the runtime's code comes from; 0: there is
 * none, or `node` is in it. */
uint32_t callers_script(const struct view *view, uint32_t node);
/* Whether two nodes are the same function at the same line, called by the same function, or from
 * the same line of a script. */
bool callers_are_alike(const struct view *view, uint32_t a, uint32_t b);
