/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/callers.h"

#include <stdlib.h>

#include "analyzer/views/inlined.h"

const struct frame *callers_frame(const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group;
	return group == UINT32_MAX ? NULL : &view->frames.frame[view->groups.group[group].frame];
}

/* Whether the node is a wrapper. Its caller says more about the site. */
static bool is_passed_over(const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group;
	return !view->query.shows_wrappers && group != UINT32_MAX &&
	       view->groups.group[group].is_wrapper;
}

static bool is_another(const struct frame *frame, const struct frame *caller)
{
	return caller && (!frame || !frame->function || caller->function != frame->function);
}

uint32_t callers_next(const struct view *view, uint32_t node)
{
	const struct frame *frame = callers_frame(view, node);
	uint32_t first = 0;
	for (uint32_t at = view->tree.node[node].parent; at; at = view->tree.node[at].parent) {
		if (!is_another(frame, callers_frame(view, at)))
			continue;
		if (!is_passed_over(view, at))
			return at;
		first = first ? first : at;
	}
	return first;
}

/* Whether a frame is of the user's script, which has an absolute path. The runtime's own scripts
 * have names such as node:internal/timers. */
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

/* --- keys --------------------------------------------------------------------------------------
 */

/* callers_next of `node`, from the results for nodes nearer to the root (`next`). */
static uint32_t next_of(const struct view *view, const uint32_t *next, uint32_t node)
{
	const struct frame *frame = callers_frame(view, node);
	const uint32_t parent = view->tree.node[node].parent;
	const struct frame *caller = parent ? callers_frame(view, parent) : NULL;
	if (!parent)
		return 0;
	if (!caller)
		return callers_next(view, node);
	if (!is_another(frame, caller))
		return next[parent];
	if (!is_passed_over(view, parent))
		return parent;
	uint32_t at = next[parent];
	if (at && !is_passed_over(view, at) && !is_another(frame, callers_frame(view, at)))
		at = next[at];
	return at && !is_passed_over(view, at) ? at : parent;
}

static struct callers_key key_of(
	const struct view *view, uint32_t node, uint32_t next, uint32_t script)
{
	const struct tree_node *tree = view->tree.node;
	struct callers_key key = {tree[node].group, UINT32_MAX, NULL, NULL, UINT32_MAX};
	const struct frame *caller = next ? callers_frame(view, next) : NULL;
	if (script && script != node)
		key.script = tree[script].group;
	else if (caller && caller->function)
		key = (struct callers_key){
			key.group, UINT32_MAX, caller->function, caller->file, UINT32_MAX};
	else if (caller)
		key.caller = tree[next].group;
	return key;
}

struct ht_err *callers_keys(const struct view *view, struct callers_key **ret)
{
	const size_t count = view->tree.count;
	uint32_t *next = calloc(count + 1, sizeof(*next));
	uint32_t *script = calloc(count + 1, sizeof(*script));
	*ret = calloc(count + 1, sizeof(**ret));
	if (!next || !script || !*ret) {
		free(next);
		free(script);
		free(*ret);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", count);
	}
	(*ret)[0] = key_of(view, 0, 0, 0);
	for (uint32_t node = 1; node < count; node++) {
		next[node] = next_of(view, next, node);
		script[node] = is_script(callers_frame(view, node))
				       ? node
				       : script[view->tree.node[node].parent];
		(*ret)[node] = key_of(view, node, next[node], script[node]);
	}
	struct ht_err *err = inlined_join(view, script, *ret);
	free(next);
	free(script);
	if (err) {
		free(*ret);
		*ret = NULL;
	}
	return err;
}

static int compare_pointers(const char *a, const char *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

/* Strings are interned: one function has one address. */
int callers_compare(const struct callers_key *a, const struct callers_key *b)
{
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->script != b->script)
		return a->script < b->script ? -1 : 1;
	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	const int function = compare_pointers(a->function, b->function);
	return function ? function : compare_pointers(a->file, b->file);
}
