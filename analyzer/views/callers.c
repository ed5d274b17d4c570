/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/callers.h"

const struct frame *callers_frame(const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group;
	return group == UINT32_MAX ? NULL : &view->frames.frame[view->groups.group[group].frame];
}

uint32_t callers_next(const struct view *view, uint32_t node)
{
	const struct frame *frame = callers_frame(view, node);
	for (uint32_t at = view->tree.node[node].parent; at; at = view->tree.node[at].parent) {
		const struct frame *caller = callers_frame(view, at);
		if (caller && (!frame || !frame->function || caller->function != frame->function))
			return at;
	}
	return 0;
}

/* Not one of the runtime's own, such as node:internal/timers. */
static bool is_script(const struct frame *frame)
{
	return frame && frame->function && frame->module == MODULES_NONE && frame->file &&
	       frame->file[0] == '/';
}

uint32_t callers_script(const struct view *view, uint32_t node)
{
	for (uint32_t at = node; at; at = view->tree.node[at].parent)
		if (is_script(callers_frame(view, at)))
			return at == node ? 0 : at;
	return 0;
}

/* Strings are interned: one function has one address. */
static bool is_same_function(const struct view *view, uint32_t a, uint32_t b)
{
	const struct frame *x = callers_frame(view, a), *y = callers_frame(view, b);
	if (!a || !b || !x || !y)
		return a == b;
	return x->function ? x->function == y->function && x->file == y->file
			   : view->tree.node[a].group == view->tree.node[b].group;
}

bool callers_are_alike(const struct view *view, uint32_t a, uint32_t b)
{
	const struct tree_node *node = view->tree.node;
	if (a == b)
		return true;
	if (!a || !b || node[a].group == UINT32_MAX || node[a].group != node[b].group)
		return false;
	const uint32_t x = callers_script(view, a), y = callers_script(view, b);
	if (x || y)
		return x && y && node[x].group == node[y].group;
	return is_same_function(view, callers_next(view, a), callers_next(view, b));
}
