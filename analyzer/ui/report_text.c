/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/report_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/views/warnings.h"
#include "analyzer/ui/memory_text.h"
#include "analyzer/ui/report_tables.h"

#define NAME_MAX_BYTES 120u
#define FRAMES_SHOWN   24u

struct report {
	const struct text *text;
	struct analysis *analysis;
	const struct report_text_options *options;
	const struct view *view;
	struct warnings warnings;
};

static void heading(const struct report *report, const char *title)
{
	text_heading(report->text, title);
}

static const char *why_ended(const struct model *model)
{
	static const char *const reason[] = {
		[REC_END_DURATION] = "ended as planned",
		[REC_END_SIGNAL] = "ended by a signal",
		[REC_END_TARGET_EXIT] = "the process exited",
		[REC_END_TARGET_EXEC] = "the process became another program (exec)",
		[REC_END_DISK_FULL] = "the disk was full",
		[REC_END_ERROR] = "ended by an error",
		[REC_END_STOP] = "ended by heaptap stop",
		[REC_END_FORBIDDEN] = "the process forbade recording",
	};
	if (!model->has_end)
		return model->is_growing ? "still being recorded" : "the end is missing";
	return model->end.reason < HT_ARRAY_SIZE(reason) ? reason[model->end.reason]
							 : "ended for an unknown reason";
}

static void write_title(const struct report *report)
{
	const struct model *model = &report->analysis->model;
	FILE *out = report->text->out;
	time_t start = (time_t)(model->capture.start_unix_ns / 1000000000);
	struct tm local;
	char when[64] = "an unknown time";
	if (localtime_r(&start, &local))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %Z", &local);
	text_foreign(report->text, model->comm ? model->comm : "unknown program", 64);
	fprintf(out, " (pid %" PRIu64 ")  ", model->target.pid);
	text_foreign(report->text, model->exe ? model->exe : "", NAME_MAX_BYTES);
	fprintf(out, "\nwindow of %s from %s, %s\n\n", text_time(model->duration_ns).text, when,
		why_ended(model));
}

/* How far from the truth an estimate of `samples` equal ones is, by the rule of thumb 1/sqrt(n). */
static void write_sample(const struct report *report)
{
	const struct cube *cube = &report->analysis->cube;
	uint64_t samples = report->view->total.samples;
	FILE *out = report->text->out;
	fprintf(out, "  sample       one allocation in %s of its bytes was recorded: %s samples. ",
		text_bytes(cube->sample_bytes).text, text_count(samples).text);
	fputs("All figures are\n               estimates; with n samples the usual error is "
	      "1/sqrt(n)",
		out);
	if (samples)
		fprintf(out, ": %.1f %% for the totals", 100 / sqrt((double)samples));
	fputs("\n", out);
}

/* Instead of figures that are all zero. Where events were lost, it is not known. */
static bool is_empty(const struct report *report)
{
	return !report->view->total.samples && !report->analysis->cube.before_frees &&
	       !model_dropped_events(&report->analysis->model);
}

static void write_figures(const struct report *report)
{
	const struct model *model = &report->analysis->model;
	const struct cube *cube = &report->analysis->cube;
	const struct sums *total = &report->view->total;
	FILE *out = report->text->out;
	double seconds = (double)model->duration_ns / 1e9;
	double rate = seconds > 0 ? (double)total->allocations / seconds : 0;
	fprintf(out, "  allocations  %s of %s (%s/s)\n", text_count(total->allocations).text,
		text_bytes(total->allocated_bytes).text, text_count((uint64_t)rate).text);
	fprintf(out, "  frees        %s of %s\n", text_count(total->frees).text,
		text_bytes(total->freed_bytes).text);
	if (!cube->sample_bytes)
		fprintf(out, "  temporary    %s (%s): freed before their thread allocated again\n",
			text_count(total->temporary).text,
			text_percent(total->temporary, total->allocations).text);
	fprintf(out, "  outstanding  %s in %s blocks: allocated in the window, not freed in it\n",
		text_bytes(sums_outstanding_bytes(total)).text,
		text_count(sums_outstanding_blocks(total)).text);
	fprintf(out, "  peak         %s at +%s\n", text_bytes(report->view->peak.bytes).text,
		text_time(report->view->peak.time_ns).text);
}

static void write_summary(const struct report *report)
{
	const struct model *model = &report->analysis->model;
	const struct cube *profile = &report->analysis->cube;
	FILE *out = report->text->out;
	if (profile->sample_bytes)
		write_sample(report);
	if (is_empty(report))
		fprintf(out, "  empty        %s in this window\n",
			profile->sample_bytes ? "the sample has no allocation"
					      : "the process allocated and freed nothing");
	else
		write_figures(report);
	memory_text_write(report->text, report->analysis);
	if (!profile->sample_bytes && !is_empty(report))
		fprintf(out,
			"  older        freed in the window, allocated earlier: %s blocks, %s\n",
			text_count(profile->before_frees).text,
			text_bytes(profile->before_freed_bytes).text);
	fprintf(out, "  lost         %s events dropped, %s stacks cut\n",
		text_count(model_dropped_events(model)).text,
		text_count(model_truncated_stacks(model)).text);
}

/* --- call chains ---------------------------------------------------------------------------------
 */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static void write_frame(const struct report *report, const struct frame *frame)
{
	const struct text *text = report->text;
	const struct module *module =
		frame->module == MODULES_NONE
			? NULL
			: &report->analysis->model.modules.module[frame->module];
	char number[64];
	if (frame->function) {
		text_foreign(text, frame->function, NAME_MAX_BYTES);
	} else if (module) {
		text_foreign(text, base_name(module->path), NAME_MAX_BYTES);
		fprintf(text->out, "+0x%" PRIx64, frame->offset);
	} else {
		fprintf(text->out, "0x%" PRIx64 " (no module)", frame->offset);
	}
	if (frame->file) {
		fputs("  ", text->out);
		text_foreign(text, base_name(frame->file), NAME_MAX_BYTES);
		snprintf(number, sizeof(number), ":%" PRIu32, frame->line);
		if (frame->line)
			text_styled(text, TEXT_DIM, number);
		if (frame->line_is_first)
			text_styled(text, TEXT_DIM, " (function's first line)");
	} else if (frame->function && module) {
		fputs("  ", text->out);
		text_foreign(text, base_name(module->path), NAME_MAX_BYTES);
	}
	if (frame->inlined)
		text_styled(text, TEXT_DIM, "  (inlined)");
	fputc('\n', text->out);
}

/* From a node of the view's tree towards the root. */
static void write_chain(const struct report *report, uint32_t node)
{
	const struct view *view = report->view;
	FILE *out = report->text->out;
	size_t count = 0;
	for (uint32_t at = node; at; at = view->tree.node[at].parent, count++) {
		const uint32_t group = view->tree.node[at].group;
		if (count >= FRAMES_SHOWN)
			continue;
		fputs(count ? "        <- " : "      ", out);
		if (group == UINT32_MAX)
			fputs("(stacks that allocated little, taken together)\n", out);
		else
			write_frame(report, &view->frames.frame[view->groups.group[group].frame]);
	}
	if (count == 0)
		fputs("      (no stack)\n", out);
	if (count > FRAMES_SHOWN)
		fprintf(out, "        ... %zu more frames\n", count - FRAMES_SHOWN);
}

/* --- lists of stacks
 * ------------------------------------------------------------------------------ */

struct list {
	enum metric metric;
	const char *title;
};

static void write_entry(const struct report *report, const struct row *row, enum metric metric)
{
	const struct sums *metrics = &row->sums;
	FILE *out = report->text->out;
	char line[160] = "";
	switch (metric) {
	case METRIC_OUTSTANDING:
		snprintf(line, sizeof(line), "%s in %s blocks",
			text_bytes(sums_outstanding_bytes(metrics)).text,
			text_count(sums_outstanding_blocks(metrics)).text);
		break;
	case METRIC_PEAK:
		snprintf(line, sizeof(line), "%s at the peak",
			text_bytes(row->sums.peak_bytes).text);
		break;
	case METRIC_TEMPORARY:
		snprintf(line, sizeof(line), "%s of %s allocations were temporary (%s)",
			text_count(metrics->temporary).text, text_count(metrics->allocations).text,
			text_bytes(metrics->allocated_bytes).text);
		break;
	case METRIC_CALLS:
	case METRIC_ALLOCATED:
	case METRIC_GROWTH:
	case METRIC_LIVE:
	case METRIC_FREED:
	case METRIC_LIFETIME:
	case METRIC_COUNT:
		snprintf(line, sizeof(line), "%s allocations of %s",
			text_count(metrics->allocations).text,
			text_bytes(metrics->allocated_bytes).text);
		break;
	}
	fputs("    ", out);
	text_styled(report->text, TEXT_BOLD, line);
	if (report->analysis->cube.sample_bytes)
		fprintf(out, " (%s samples)", text_count(metrics->samples).text);
	fputc('\n', out);
}

static void write_rest(
	const struct report *report, const uint32_t *order, size_t shown, enum metric metric)
{
	const struct view *view = report->view;
	uint64_t count = 0, value = 0;
	for (size_t i = shown; i < view->row_count; i++) {
		uint64_t one = (uint64_t)metric_value(&view->row[order[i]].sums, metric);
		count += one != 0;
		value += one;
	}
	bool is_bytes = metric == METRIC_OUTSTANDING || metric == METRIC_PEAK;
	if (count)
		fprintf(report->text->out, "    %s in %s other stacks\n",
			is_bytes ? text_bytes(value).text : text_count(value).text,
			text_count(count).text);
}

static struct ht_err *write_list(struct report *report, const struct list *list)
{
	const struct view *view = report->view;
	size_t limit = report->options->limit;
	uint32_t *order;
	struct ht_err *err = view_order(view, list->metric, &order);
	if (err)
		return err;
	heading(report, list->title);
	size_t shown = 0;
	for (; shown < view->row_count; shown++) {
		const struct row *row = &view->row[order[shown]];
		if ((limit && shown == limit) || metric_value(&row->sums, list->metric) == 0)
			break;
		write_entry(report, row, list->metric);
		write_chain(report, row->node);
	}
	if (shown == 0)
		fputs("    nothing\n", report->text->out);
	write_rest(report, order, shown, list->metric);
	free(order);
	return NULL;
}

/* --- mappings ------------------------------------------------------------------------------------
 */

/* "1.0 MiB accessible (256.0 KiB of files), 4.0 GiB reserved" */
static void put_mapped(FILE *out, const struct mappings_bytes *bytes)
{
	fprintf(out, "%s accessible", text_bytes(mappings_accessible(bytes)).text);
	if (bytes->file)
		fprintf(out, " (%s of files)", text_bytes(bytes->file).text);
	if (bytes->reserved)
		fprintf(out, ", %s reserved", text_bytes(bytes->reserved).text);
}

static void write_mappings_summary(const struct report *report)
{
	const struct mappings *mappings = &report->analysis->mappings;
	const uint64_t *calls = mappings->calls;
	FILE *out = report->text->out;
	fputs("    at the end   ", out);
	put_mapped(out, &mappings->live);
	fprintf(out, "\n    peak         %s accessible at +%s\n",
		text_bytes(mappings->peak_bytes).text, text_time(mappings->peak_time_ns).text);
	fprintf(out, "    calls        %s mapped, %s unmapped, %s remapped, %s protected\n",
		text_count(calls[ABI_CALL_MAP]).text, text_count(calls[ABI_CALL_UNMAP]).text,
		text_count(calls[ABI_CALL_MOVE_TO]).text, text_count(calls[ABI_CALL_PROTECT]).text);
	fprintf(out, "    older        unmapped in the window, mapped earlier: %s\n",
		text_bytes(mappings->before_bytes).text);
	fprintf(out, "    given back   %s in %s calls of madvise, and still mapped\n",
		text_bytes(mappings->advised_bytes).text, text_count(calls[ABI_CALL_ADVISE]).text);
}

static struct ht_err *write_mappings(struct report *report)
{
	const struct mappings *mappings = &report->analysis->mappings;
	FILE *out = report->text->out;
	size_t limit = report->options->limit, count = mappings->stack_count;
	uint32_t *order;
	if (!analysis_has_mappings(report->analysis))
		return NULL;
	struct ht_err *err = mappings_order(mappings, &order);
	if (err)
		return err;
	heading(report, "Mappings: memory that the program and its allocators mapped; it contains "
			"the blocks");
	write_mappings_summary(report);
	for (size_t i = 0; i < count && (!limit || i < limit); i++) {
		const struct mappings_stack *stack = &mappings->stack[order[i]];
		if (!mappings_accessible(&stack->live) && !stack->live.reserved)
			break;
		fputs("    ", out);
		put_mapped(out, &stack->live);
		fprintf(out, ", of %s in %s calls\n", text_bytes(stack->made_bytes).text,
			text_count(stack->calls).text);
		write_chain(report, tree_leaf(&report->view->tree, &report->analysis->model.nodes,
					    stack->node));
	}
	free(order);
	return err;
}

/* --- the rest of the page
 * -------------------------------------------------------------------------- */

static void write_warning(const struct report *report, const char *indent, const char *warning)
{
	fputs(indent, report->text->out);
	text_styled(report->text, TEXT_WARNING, "! ");
	text_foreign(report->text, warning, 1000);
	fputc('\n', report->text->out);
}

/* But for what the page begins with. */
static void write_warnings(const struct report *report)
{
	const struct warnings *warnings = &report->warnings;
	size_t first = warnings->has_ending;
	if (warnings->count > first)
		heading(report, "Warnings");
	for (size_t i = first; i < warnings->count; i++)
		write_warning(report, "    ", warnings->text[i]);
}

static void write_next(const struct report *report)
{
	static const struct {
		const char *before, *after, *what;
		bool if_skipped;
	} next[] = {
		{"heaptap report ", " --limit 0", "every stack", false},
		{"heaptap report ", " --show-wrappers", "with operator new, alloc::* and the like",
			true},
		{"heaptap report ", " --json --limit 0", "the same as one JSON object", false},
		{"heaptap export ", " --format heaptrack -o OUT",
			"for heaptrack_gui and heaptrack_print", false},
		{"heaptap export ", " --format collapsed -o OUT", "for flame graphs", false},
	};
	if (strcmp(report->options->path, "-") == 0)
		return;
	heading(report, "Next");
	for (size_t i = 0; i < HT_ARRAY_SIZE(next); i++) {
		if (next[i].if_skipped && !view_has_skipped(report->view))
			continue;
		fprintf(report->text->out, "    %s", next[i].before);
		text_foreign(report->text, report->options->path, 4096);
		fprintf(report->text->out, "%-26s    ", next[i].after);
		text_styled(report->text, TEXT_DIM, next[i].what);
		fputc('\n', report->text->out);
	}
}

static struct ht_err *write_page(struct report *report)
{
	static const struct list list[] = {
		{METRIC_OUTSTANDING,
			"Outstanding: allocated in the window and not freed by its end"},
		{METRIC_PEAK, "Peak: live when the window's blocks used most memory"},
		{METRIC_TEMPORARY, "Temporary: freed before their thread allocated again"},
		{METRIC_CALLS, "Most calls"},
	};
	struct ht_err *err = NULL;
	if (report->warnings.has_ending) {
		write_warning(report, "", report->warnings.text[0]);
		fputc('\n', report->text->out);
	}
	write_title(report);
	write_summary(report);
	for (size_t i = 0; i < HT_ARRAY_SIZE(list) && !err && !is_empty(report); i++) {
		/* What was allocated in between is not in a sample. */
		if (list[i].metric != METRIC_TEMPORARY || !report->analysis->cube.sample_bytes)
			err = write_list(report, &list[i]);
	}
	if (!err)
		err = write_mappings(report);
	if (err)
		return err;
	if (!is_empty(report))
		err = report_tables_write(report->text, report->view);
	if (err)
		return err;
	write_warnings(report);
	write_next(report);
	return NULL;
}

struct ht_err *report_text_write(
	const struct text *text, const struct view *view, const struct report_text_options *options)
{
	struct report report = {
		.text = text, .analysis = view->analysis, .options = options, .view = view};
	struct ht_err *err = warnings_collect(view->analysis, &report.warnings);
	if (!err)
		err = write_page(&report);
	warnings_deinit(&report.warnings);
	return err;
}
