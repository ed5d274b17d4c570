/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/function.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/array.h"
#include "analyzer/symbols/wrapper.h"

/* --- names -------------------------------------------------------------------------------------
 */

void function_name(
	const struct view *view, const struct frame *frame, char ret[FUNCTION_NAME_BYTES])
{
	if (frame->function) {
		snprintf(ret, FUNCTION_NAME_BYTES, "%s", frame->function);
	} else if (frame->module != MODULES_NONE) {
		const char *path = view->analysis->model.modules.module[frame->module].path;
		const char *slash = strrchr(path, '/');
		snprintf(ret, FUNCTION_NAME_BYTES, "%.900s+0x%" PRIx64, slash ? slash + 1 : path,
			frame->offset);
	} else {
		snprintf(ret, FUNCTION_NAME_BYTES, "0x%" PRIx64, frame->offset);
	}
}

/* How well a name fits. */
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
	if (x->inclusive != y->inclusive)
		return x->inclusive > y->inclusive ? -1 : 1;
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

static struct ht_err *take_matches(const struct calls *calls, const char *text, const int64_t *own,
	const int64_t *inclusive, struct function_matches *ret)
{
	const size_t groups = calls->groups.count;
	enum fit best = FIT_NONE;
	ret->match = calloc(groups + 1, sizeof(*ret->match));
	if (!ret->match)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (uint32_t i = 0; i < groups; i++) {
		if (!own[i] && !inclusive[i])
			continue;
		const struct frame *frame = frame_of(calls, i);
		const enum fit fit = fit_of_frame(calls->view, frame, text);
		if (fit == FIT_NONE || fit < best)
			continue;
		if (fit > best && fit > FIT_PART)
			ret->count = 0;
		best = fit > best ? fit : best;
		ret->match[ret->count++] =
			(struct function_match){i, own[i], inclusive[i], frame->function};
	}
	ret->is_one = ret->count == 1 || (best > FIT_PART && have_one_name(ret));
	qsort(ret->match, ret->count, sizeof(*ret->match), compare_matches);
	return ret->count ? NULL : no_match(calls, text);
}

struct ht_err *function_find(
	const struct calls *calls, const char *text, struct function_matches *ret)
{
	int64_t *own, *inclusive;
	*ret = (struct function_matches){0};
	struct ht_err *err = calls_group_values(calls, &own, &inclusive);
	if (err)
		return err;
	err = take_matches(calls, text, own, inclusive, ret);
	free(own);
	free(inclusive);
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

struct count {
	const struct calls *calls;
	struct function *callers;
	bool *is_function;	  /* by group of the call tree */
	int64_t *caller, *callee; /* by the same */
};

static bool is_of_function(const struct count *count, uint32_t node)
{
	const uint32_t group = count->calls->tree.node[node].group;
	return group != UINT32_MAX && count->is_function[group];
}

/* The chain that begins at `leaf`, with its own value. */
static void count_chain(struct count *count, uint32_t leaf)
{
	const struct tree *tree = &count->calls->tree;
	const int64_t value = count->calls->own[leaf];
	struct function *callers = count->callers;
	uint32_t before = 0, after_first = 0, last = 0, times = 0;
	for (uint32_t at = leaf; at; before = at, at = tree->node[at].parent) {
		if (!is_of_function(count, at))
			continue;
		if (!times++)
			after_first = before;
		last = at;
	}
	if (!times)
		return;
	callers->inclusive += value;
	callers->recursive += times > 1 ? value : 0;
	if (after_first)
		count->callee[tree->node[after_first].group] += value;
	else
		callers->own += value;
	if (tree->node[last].parent)
		count->caller[tree->node[tree->node[last].parent].group] += value;
	else
		callers->outermost += value;
}

static int compare_entries(const void *a, const void *b)
{
	const struct function_entry *x = a, *y = b;
	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

static struct ht_err *take_entries(
	const int64_t *value, size_t groups, struct function_entry **ret, size_t *ret_count)
{
	*ret = calloc(groups + 1, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (uint32_t i = 0; i < groups; i++)
		if (value[i])
			(*ret)[(*ret_count)++] = (struct function_entry){i, value[i]};
	qsort(*ret, *ret_count, sizeof(**ret), compare_entries);
	return NULL;
}

static struct ht_err *count_calls(struct count *count)
{
	const size_t groups = count->calls->groups.count;
	struct function *callers = count->callers;
	for (uint32_t i = 1; i < count->calls->tree.count; i++)
		if (count->calls->own[i])
			count_chain(count, i);
	struct ht_err *err =
		take_entries(count->caller, groups, &callers->caller, &callers->caller_count);
	return err ? err
		   : take_entries(count->callee, groups, &callers->callee, &callers->callee_count);
}

/* --- lines -------------------------------------------------------------------------------------
 */

struct lines {
	const struct count *count;
	int64_t *own, *inclusive; /* by group of the view, which are lines */
	uint32_t *seen;		  /* by the same: the last row that has it, from 1 */
};

static void count_row(struct lines *lines, uint32_t index)
{
	const struct calls *calls = lines->count->calls;
	const struct view *view = calls->view;
	const struct row *row = &view->row[index];
	const int64_t value = metric_value(&row->sums, calls->options.metric);
	for (uint32_t at = row->node; at; at = view->tree.node[at].parent) {
		const uint32_t line = view->tree.node[at].group;
		if (line == UINT32_MAX ||
			!lines->count->is_function
				 [calls->groups.of_frame[view->groups.group[line].frame]])
			continue;
		if (at == row->node)
			lines->own[line] += value;
		if (lines->seen[line] != index + 1)
			lines->inclusive[line] += value;
		lines->seen[line] = index + 1;
	}
}

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

/* Lines of one number, which several groups may have, become one. */
static void join_lines(struct function *callers)
{
	size_t count = 0;
	for (size_t i = 0; i < callers->line_count; i++) {
		struct function_line *last = count ? &callers->line[count - 1] : NULL;
		const struct function_line *line = &callers->line[i];
		if (last && line->line && last->file == line->file && last->line == line->line) {
			last->own += line->own;
			last->inclusive += line->inclusive;
		} else {
			callers->line[count++] = *line;
		}
	}
	callers->line_count = count;
}

static struct ht_err *take_lines(const struct lines *lines, struct function *callers)
{
	const struct view *view = lines->count->calls->view;
	const struct groups *groups = &view->groups;
	callers->line = calloc(groups->count + 1, sizeof(*callers->line));
	if (!callers->line)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", groups->count);
	for (size_t i = 0; i < groups->count; i++) {
		const struct frame *frame = &view->frames.frame[groups->group[i].frame];
		if (lines->own[i] || lines->inclusive[i])
			callers->line[callers->line_count++] =
				(struct function_line){frame->file, frame->line,
					groups->group[i].frame, lines->own[i], lines->inclusive[i]};
	}
	qsort(callers->line, callers->line_count, sizeof(*callers->line), compare_lines);
	join_lines(callers);
	return NULL;
}

static struct ht_err *count_lines(const struct count *count)
{
	const struct calls *calls = count->calls;
	const struct view *view = calls->view;
	const size_t groups = view->groups.count + 1;
	struct lines lines = {
		.count = count,
		.own = calloc(groups, sizeof(*lines.own)),
		.inclusive = calloc(groups, sizeof(*lines.inclusive)),
		.seen = calloc(groups, sizeof(*lines.seen)),
	};
	struct ht_err *err = NULL;
	if (!lines.own || !lines.inclusive || !lines.seen)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", groups);
	for (uint32_t i = 0; i < view->row_count && !err; i++)
		if (!calls->options.has_row || calls->options.has_row[i])
			count_row(&lines, i);
	if (!err)
		err = take_lines(&lines, count->callers);
	free(lines.own);
	free(lines.inclusive);
	free(lines.seen);
	return err;
}

struct ht_err *function_init(
	struct function *callers, const struct calls *calls, const struct function_matches *matches)
{
	const size_t groups = calls->groups.count + 1;
	struct count count = {
		.calls = calls,
		.callers = callers,
		.is_function = calloc(groups, sizeof(*count.is_function)),
		.caller = calloc(groups, sizeof(*count.caller)),
		.callee = calloc(groups, sizeof(*count.callee)),
	};
	struct ht_err *err = NULL;
	*callers = (struct function){0};
	if (!count.is_function || !count.caller || !count.callee)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	for (size_t i = 0; i < matches->count && !err; i++)
		count.is_function[matches->match[i].group] = true;
	if (!err)
		err = count_calls(&count);
	if (!err)
		err = count_lines(&count);
	free(count.is_function);
	free(count.caller);
	free(count.callee);
	if (err)
		function_deinit(callers);
	return err;
}

void function_deinit(struct function *callers)
{
	free(callers->caller);
	free(callers->callee);
	free(callers->line);
	*callers = (struct function){0};
}
