/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/calls_text.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/views/function.h"

#define SHARE_COLUMNS 8u
#define NAME_LEAST    12u /* columns of a name, however narrow the terminal is */

/* --- figures -----------------------------------------------------------------------------------
 */

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

struct text_number calls_text_value(const struct calls_text *page, int64_t value)
{
	const bool is_bytes = metric_info(page->calls->options.metric)->unit == METRIC_BYTES;
	const struct text_number number = is_bytes && !page->is_exact
						  ? text_bytes(magnitude(value))
						  : text_count(magnitude(value));
	struct text_number ret;
	snprintf(ret.text, sizeof(ret.text), "%s%.30s%s", value < 0 ? "-" : "", number.text,
		is_bytes && page->is_exact ? " B" : "");
	return ret;
}

struct text_number calls_text_share(int64_t value, int64_t whole)
{
	struct text_number ret = {"-"};
	if (whole)
		snprintf(ret.text, sizeof(ret.text), "%.1f %%",
			100 * (double)value / (double)magnitude(whole));
	return ret;
}

size_t calls_text_bound_columns(const struct calls_text *page)
{
	return page->calls->is_sample ? TEXT_BOUND_COLUMNS : 0;
}

void calls_text_bound(const struct calls_text *page, struct line *line, struct figure value)
{
	line_right(line, text_bound(page->text, value.value, figure_bound(value)).text,
		calls_text_bound_columns(page));
}

void calls_text_figures(
	const struct calls_text *page, struct line *line, struct figure value, int64_t whole)
{
	line_right(
		line, calls_text_value(page, value.value).text, CALLS_TEXT_FIGURES - SHARE_COLUMNS);
	line_right(line, calls_text_share(value.value, whole).text, SHARE_COLUMNS);
	calls_text_bound(page, line, value);
}

int64_t calls_text_least(const struct calls *calls)
{
	const struct calls_children *children = &calls->children[0];
	uint64_t most = magnitude(calls->total[0].value);
	/* Compare each child too: signed figures may add up to 0. */
	for (uint32_t i = 0; i < children->count; i++) {
		const uint32_t child = calls->child[children->first + i];
		const uint64_t value = magnitude(calls->total[child].value);
		most = value > most ? value : most;
	}
	return (int64_t)(most / 100 + (most % 100 != 0));
}

/* --- first lines -------------------------------------------------------------------------------
 */

static void write_notes(const struct calls_text *page)
{
	const struct view *view = page->calls->view;
	const uint64_t sample_bytes = view->analysis->cube.sample_bytes;
	if (sample_bytes)
		fprintf(page->text->out,
			"a sample, one allocation in %s: estimates, with bounds at 95 %%\n",
			text_bytes(sample_bytes).text);
	if (view->is_snapped)
		fprintf(page->text->out, "--from and --to are rounded to steps of %s\n",
			text_time(view->analysis->cube.step_ns).text);
	if (page->calls->cut)
		fprintf(page->text->out,
			"%s chains lack their outermost callers: too many frames\n",
			text_count(page->calls->cut).text);
	if (!metric_is_exact(page->calls->options.metric, view->is_whole))
		fprintf(page->text->out, "an estimate: within a window, known to a step\n");
}

void calls_text_head(const struct calls_text *page)
{
	const struct calls *calls = page->calls;
	const struct view *view = calls->view;
	const struct model *model = &view->analysis->model;
	const struct metric_info *metric = metric_info(calls->options.metric);
	struct line line;
	line_begin(&line, page->text);
	line_foreign_styled(&line, TEXT_BOLD, model->comm ? model->comm : "unknown program", 32);
	line_put(&line, " (pid %" PRIu64 "), ", model->target.pid);
	if (view->is_whole)
		line_put(&line, "window of %s", text_time(view->to_ns - view->from_ns).text);
	else
		line_put(&line, "from +%s to +%s", text_time(view->from_ns).text,
			text_time(view->to_ns).text);
	line_end(&line);
	line_begin(&line, page->text);
	const struct figure total = calls->total[0];
	const struct text_number bound = text_bound(page->text, total.value, figure_bound(total));
	line_styled(&line, TEXT_BOLD, "%s %s%s%s", metric->name,
		calls_text_value(page, total.value).text, *bound.text ? " " : "", bound.text);
	line_put(&line, ": %s", metric->title);
	line_end(&line);
	write_notes(page);
	fputc('\n', page->text->out);
}

bool calls_text_is_empty(const struct calls_text *page)
{
	const struct calls *calls = page->calls;
	if (calls->own[0].value || calls->children[0].count)
		return false;
	fputs("nothing: another --metric or fewer filters may show more\n", page->text->out);
	return true;
}

/* --- names -------------------------------------------------------------------------------------
 */

static bool has_line(const struct calls *calls, const struct frame *frame)
{
	return frame->line && (calls->options.grouping == GROUPING_LINE ||
				      calls->options.grouping == GROUPING_ADDRESS);
}

/* "file", "file:line" or "module"; "" if the frame's name already contains it. */
static void place_of(const struct calls *calls, const struct frame *frame, char ret[NAME_BYTES])
{
	const struct modules *modules = &calls->view->analysis->model.modules;
	const char *path = frame->file	     ? frame->file
			   : frame->function ? modules_path(modules, frame->module)
					     : NULL;
	char line[16] = "";
	if (frame->file && has_line(calls, frame))
		snprintf(line, sizeof(line), ":%" PRIu32, frame->line);
	snprintf(ret, NAME_BYTES, "%.900s%s", path ? strings_base_name(path) : "", line);
}

static void put_place(const struct calls *calls, struct line *line, const struct frame *frame,
	const struct frame *above, size_t reserved)
{
	char place[NAME_BYTES], place_above[NAME_BYTES] = "";
	if (groups_are_coarse(&calls->groups))
		return;
	place_of(calls, frame, place);
	if (above)
		place_of(calls, above, place_above);
	const size_t columns = text_columns(place);
	if (!columns || !strcmp(place, place_above) || line_left(line) < columns + 2 + reserved)
		return;
	line_put(line, "  ");
	line_foreign_styled(line, TEXT_DIM, place, columns);
}

void calls_text_name(
	const struct calls *calls, uint32_t group, size_t columns, char ret[NAME_BYTES])
{
	const struct frame *frame = &calls->view->frames.frame[calls->groups.group[group].frame];
	const char *name = calls->groups.group[group].name;
	if (!name && frame->function)
		name_shorten(frame->function, columns, ret);
	else if (!name)
		function_name(calls->view, frame, ret);
	else
		snprintf(ret, NAME_BYTES, "%s", name);
}

void calls_text_frame(const struct calls_text *page, struct line *line, uint32_t group,
	const struct frame *above, size_t reserved)
{
	const struct calls *calls = page->calls;
	const size_t all = line_left(line);
	const size_t left = all > NAME_LEAST + reserved ? all - reserved : NAME_LEAST;
	char shortened[NAME_BYTES];
	calls_text_name(calls, group, left, shortened);
	line_foreign(line, shortened, left);
	put_place(calls, line, &calls->view->frames.frame[calls->groups.group[group].frame], above,
		reserved);
}

void calls_text_node(const struct calls_text *page, struct line *line, uint32_t node,
	const struct frame *above, size_t reserved)
{
	const uint32_t group = page->calls->tree.node[node].group;
	if (group != UINT32_MAX)
		calls_text_frame(page, line, group, above, reserved);
	else if (node)
		line_put(line, "(folded: stacks that allocated little)");
	else
		line_styled(line, TEXT_DIM, "all");
}
