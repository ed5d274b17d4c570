/* SPDX-License-Identifier: Apache-2.0
 *
 * Call chains on a page: in full, one frame a line, or as much as fits into one line.
 */
#pragma once

#include "analyzer/ui/line.h"
#include "analyzer/views/view.h"

/* The name of a frame: its function, else module and offset, in at most `columns`. */
void chain_put_frame(
	struct line *line, const struct view *view, const struct frame *frame, size_t columns);
/* Fills the rest of the line: the function of `node`, with its file and line if `has_file`, and
 * its callers, as many as fit; the first caller always. A function that calls itself stands once.
 */
void chain_put(struct line *line, const struct view *view, uint32_t node, bool has_file);
/* The same with so many callers at most, besides a script's function. */
void chain_put_some(struct line *line, const struct view *view, uint32_t node, bool has_file,
	size_t callers_max);
/* The whole chain, from `node` of the view's tree towards the root. */
void chain_write(const struct text *text, const struct view *view, uint32_t node);
