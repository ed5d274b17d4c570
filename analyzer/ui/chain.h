/* SPDX-License-Identifier: Apache-2.0
 *
 * Call chains on a page: in full, one frame a line, or as much as fits into one line.
 */
#pragma once

#include "analyzer/ui/line.h"
#include "analyzer/views/view.h"

/* Puts the name of a frame in at most `columns`: its function, else module and offset, else the
 * address. */
void chain_put_frame(
	struct line *line, const struct view *view, const struct frame *frame, size_t columns);
#define CHAIN_CALLERS 8u /* callers in a line, if nothing else limits them */
/* Fills the rest of the line: the function of `node`, with file and line if `has_file`, and as many
 * callers as fit, at least the first, at most `callers_max`, not counting a script's function. A
 * recursive function appears once. */
void chain_put(struct line *line, const struct view *view, uint32_t node, bool has_file,
	size_t callers_max);
/* Writes the chain from `node` of the view's tree towards the root, at most 24 frames, and how many
 * more there are. */
void chain_write(const struct text *text, const struct view *view, uint32_t node);
