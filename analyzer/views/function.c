/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/function.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/wrapper.h"

/* --- names -------------------------------------------------------------------------------------
 */

void function_name(
	const struct view *view, const struct frame *frame, char ret[FUNCTION_NAME_BYTES])
{
	const char *path = modules_path(&view->analysis->model.modules, frame->module);
	if (frame->function)
		snprintf(ret, FUNCTION_NAME_BYTES, "%s", frame->function);
	else
		snprintf(ret, FUNCTION_NAME_BYTES, "%.900s%s0x%" PRIx64,
			path ? strings_base_name(path) : "", path ? "+" : "", frame->offset);
}

/* The match of a name with the searched text, worst first. */
enum fit { FIT_NONE, FIT_PART, FIT_BUT_PARAMETERS, FIT_WHOLE };

static enum fit fit_of(const char *name, const char *text)
{
	const char *plain = wrapper_name(name);
	const size_t length = strlen(text);
	if (!strcmp(name, text) || !strcmp(plain, text))
		return FIT_WHOLE;
	if (!strncmp(plain, text, length) && plain[length] == '(')
		return FIT_BUT_PARAMETERS;
	return strstr(name, text) ? FIT_PART : FIT_NONE;
}

static enum fit fit_of_frame(const struct view *view, const struct frame *frame, const char *text)
{
	char name[FUNCTION_NAME_BYTES];
	if (frame->function)
		return fit_of(frame->function, text);
	function_name(view, frame, name);
	return fit_of(name, text);
}

static const struct frame *frame_of(const struct calls *calls, uint32_t group)
{
	return &calls->view->frames.frame[calls->groups.group[group].frame];
}

static struct ht_err *no_match(const struct calls *calls, const char *text)
{
	const struct frames *frames = &calls->view->frames;
	bool is_there = false;
	for (size_t i = 0; i < frames->count && !is_there; i++)
		is_there = fit_of_frame(calls->view, &frames->frame[i], text) != FIT_NONE;
	if (!is_there)
		return ht_err_new(HT_ERR_USAGE,
			"no function's name in the trace contains \"%.200s\"; heaptap tree lists "
			"the functions that allocate",
			text);
	if (view_has_skipped(calls->view))
		return ht_err_new(HT_ERR_USAGE,
			"\"%.200s\": %s is 0 here; functions that only pass allocations on are "
			"shown with --show-wrappers",
			text, metric_info(calls->options.metric)->name);
	return ht_err_new(HT_ERR_USAGE,
		"\"%.200s\": %s is 0 here; use another --metric, or fewer filters", text,
		metric_info(calls->options.metric)->name);
}

static int compare_matches(const void *a, const void *b)
{
	const struct function_match *x = a, *y = b;
	if (x->sum.inclusive.value != y->sum.inclusive.value)
		return x->sum.inclusive.value > y->sum.inclusive.value ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

static bool have_one_name(const struct function_matches *matches)
{
	for (size_t i = 1; i < matches->count; i++)
		if (!matches->match[i].function ||
			matches->match[i].function != matches->match[0].function)
			return false;
	return true;
}

static struct ht_err *take_matches(const struct calls *calls, const char *text,
	const struct calls_sum *sum, struct function_matches *ret)
{
	const size_t groups = calls->groups.count;
	enum fit best = FIT_NONE;
	ret->match = calloc(groups + 1, sizeof(*ret->match));
	if (!ret->match)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (uint32_t i = 0; i < groups; i++) {
		if (!sum[i].own.value && !sum[i].inclusive.value)
			continue;
		const struct frame *frame = frame_of(calls, i);
		const enum fit fit = fit_of_frame(calls->view, frame, text);
		if (fit == FIT_NONE || fit < best)
			continue;
		if (fit > best && fit > FIT_PART)
			ret->count = 0;
		best = fit > best ? fit : best;
		ret->match[ret->count++] = (struct function_match){i, sum[i], frame->function};
	}
	ret->is_one = ret->count == 1 || (best > FIT_PART && have_one_name(ret));
	qsort(ret->match, ret->count, sizeof(*ret->match), compare_matches);
	return ret->count ? NULL : no_match(calls, text);
}

struct ht_err *function_find(
	const struct calls *calls, const char *text, struct function_matches *ret)
{
	struct calls_sum *sum;
	*ret = (struct function_matches){0};
	HT_TRY(calls_group_sums(calls, &sum));
	struct ht_err *err = take_matches(calls, text, sum, ret);
	free(sum);
	if (err)
		function_matches_deinit(ret);
	return err;
}

void function_matches_deinit(struct function_matches *matches)
{
	free(matches->match);
	*matches = (struct function_matches){0};
}

/* --- callers and callees -----------------------------------------------------------------------
 */

/* The function's nodes on the path from the root to a node, inclusive. */
struct path {
	uint32_t outermost; /* the outermost node of the function; 0: none */
	uint32_t callee; /* the node called by the innermost one; 0: the innermost one is the node
			    itself */
	bool is_recursive;
};

struct count {
	const struct calls *calls;
	struct function *function;
	bool *is_function;		/* by group of the call tree */
	struct figure *caller, *callee; /* by group, too */
	struct path *path;		/* by node */
};

static struct path path_of(const struct count *count, uint32_t node)
{
	const struct tree_node *at = &count->calls->tree.node[node];
	struct path path = count->path[at->parent];
	if (at->group == UINT32_MAX || !count->is_function[at->group]) {
		if (path.outermost && !path.callee)
			path.callee = node;
		return path;
	}
	path.is_recursive = path.outermost != 0;
	path.callee = 0;
	if (!path.outermost)
		path.outermost = node;
	return path;
}

/* Counts the stacks whose innermost frame is `node`. */
static void count_node(struct count *count, uint32_t node)
{
	const struct tree *tree = &count->calls->tree;
	const struct figure value = count->calls->own[node];
	const struct path *path = &count->path[node];
	struct function *function = count->function;
	if (!path->outermost)
		return;
	const uint32_t caller = tree->node[path->outermost].parent;
	figure_add(&function->sum.inclusive, value);
	if (path->is_recursive)
		figure_add(&function->recursive, value);
	figure_add(
		path->callee ? &count->callee[tree->node[path->callee].group] : &function->sum.own,
		value);
	figure_add(caller ? &count->caller[tree->node[caller].group] : &function->outermost, value);
}

static int compare_entries(const void *a, const void *b)
{
	const struct function_entry *x = a, *y = b;
	if (x->figure.value != y->figure.value)
		return x->figure.value > y->figure.value ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

static struct ht_err *take_entries(
	const struct figure *figure, size_t groups, struct function_entry **ret, size_t *ret_count)
{
	*ret = calloc(groups + 1, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (uint32_t i = 0; i < groups; i++)
		if (figure[i].value)
			(*ret)[(*ret_count)++] = (struct function_entry){i, figure[i]};
	qsort(*ret, *ret_count, sizeof(**ret), compare_entries);
	return NULL;
}

/* Nodes of callers have lower numbers, so the parent's path is known. */
static struct ht_err *count_calls(struct count *count)
{
	const struct calls *calls = count->calls;
	const size_t groups = calls->groups.count;
	struct function *function = count->function;
	for (uint32_t i = 1; i < calls->tree.count; i++) {
		count->path[i] = path_of(count, i);
		count_node(count, i);
	}
	HT_TRY(take_entries(count->caller, groups, &function->caller, &function->caller_count));
	return take_entries(count->callee, groups, &function->callee, &function->callee_count);
}

/* --- lines -------------------------------------------------------------------------------------
 */

static int compare_lines(const void *a, const void *b)
{
	const struct function_line *x = a, *y = b;
	if (x->file != y->file) {
		const int order = strcmp(x->file ? x->file : "", y->file ? y->file : "");
		if (order)
			return order;
	}
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Joins entries of the same file and line, which may come from several groups. */
static void join_lines(struct function *function)
{
	size_t count = 0;
	for (size_t i = 0; i < function->line_count; i++) {
		struct function_line *last = count ? &function->line[count - 1] : NULL;
		const struct function_line *line = &function->line[i];
		if (last && line->line && last->file == line->file && last->line == line->line) {
			figure_add(&last->sum.own, line->sum.own);
			figure_add(&last->sum.inclusive, line->sum.inclusive);
		} else {
			function->line[count++] = *line;
		}
	}
	function->line_count = count;
}

static struct ht_err *take_lines(
	const struct count *count, const struct calls *lines, const struct calls_sum *sum)
{
	const struct groups *groups = &lines->groups;
	struct function *function = count->function;
	function->line = calloc(groups->count + 1, sizeof(*function->line));
	if (!function->line)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", groups->count);
	for (size_t i = 0; i < groups->count; i++) {
		const uint32_t at = groups->group[i].frame;
		const struct frame *frame = &lines->view->frames.frame[at];
		if (count->is_function[count->calls->groups.of_frame[at]] &&
			(sum[i].own.value || sum[i].inclusive.value))
			function->line[function->line_count++] =
				(struct function_line){frame->file, frame->line, at, sum[i]};
	}
	qsort(function->line, function->line_count, sizeof(*function->line), compare_lines);
	join_lines(function);
	return NULL;
}

/* Counts lines in a second tree of the same chains, built by line. */
static struct ht_err *count_lines(const struct count *count)
{
	struct calls_options options = count->calls->options;
	struct calls lines;
	struct calls_sum *sum;
	options.grouping = GROUPING_LINE;
	HT_TRY(calls_init(&lines, count->calls->view, &options));
	struct ht_err *err = calls_group_sums(&lines, &sum);
	if (!err) {
		err = take_lines(count, &lines, sum);
		free(sum);
	}
	calls_deinit(&lines);
	return err;
}

struct ht_err *function_init(struct function *function, const struct calls *calls,
	const struct function_matches *matches)
{
	const size_t groups = calls->groups.count + 1;
	struct count count = {
		.calls = calls,
		.function = function,
		.is_function = calloc(groups, sizeof(*count.is_function)),
		.caller = calloc(groups, sizeof(*count.caller)),
		.callee = calloc(groups, sizeof(*count.callee)),
		.path = calloc(calls->tree.count, sizeof(*count.path)),
	};
	struct ht_err *err = NULL;
	*function = (struct function){0};
	if (!count.is_function || !count.caller || !count.callee || !count.path)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (size_t i = 0; i < matches->count && !err; i++)
		count.is_function[matches->match[i].group] = true;
	HT_THEN(err, count_calls(&count));
	HT_THEN(err, count_lines(&count));
	free(count.is_function);
	free(count.caller);
	free(count.callee);
	free(count.path);
	if (err)
		function_deinit(function);
	return err;
}

void function_deinit(struct function *function)
{
	free(function->caller);
	free(function->callee);
	free(function->line);
	*function = (struct function){0};
}
