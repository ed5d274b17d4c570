/* SPDX-License-Identifier: Apache-2.0
 *
 * speedscope's file format (https://www.speedscope.app/file-format-schema.json): one profile per
 * metric, over one table of frames. Stacks are outermost first.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/export/numbers.h"

static const enum metric shown[] = {
	METRIC_OUTSTANDING, METRIC_PEAK, METRIC_ALLOCATED, METRIC_CALLS, METRIC_TEMPORARY};

/* Frames are numbered by group, because numbers by tree node would repeat frames. The first two are
 * no groups. */
enum { NO_STACK, OTHER, GROUPS };

struct speedscope {
	FILE *out;
	const struct view *view;
	struct names_chain chain;
	uint32_t *order;
	struct numbers groups; /* by group; a frame's number is this + GROUPS */
};

static uint32_t number_of(struct speedscope *speedscope, uint32_t node)
{
	const uint32_t group = speedscope->view->tree.node[node].group;
	if (group == UINT32_MAX)
		return node ? OTHER : NO_STACK;
	return GROUPS + numbers_get(&speedscope->groups, group);
}

static void put_stack(struct speedscope *speedscope, const struct row *row)
{
	struct names_chain *chain = &speedscope->chain;
	names_chain_take(chain, speedscope->view, row->node);
	putc('[', speedscope->out);
	if (!chain->depth)
		fprintf(speedscope->out, "%d", NO_STACK);
	for (size_t i = 0; i < chain->depth; i++)
		fprintf(speedscope->out, "%s%" PRIu32, i ? "," : "",
			number_of(speedscope, chain->node[i]));
	putc(']', speedscope->out);
}

/* Number of rows whose figure is above 0; they are first in `order`. `*ret_sum`: their sum. */
static size_t count_rows(const struct speedscope *speedscope, enum metric metric, int64_t *ret_sum)
{
	const struct view *view = speedscope->view;
	size_t count = 0;
	*ret_sum = 0;
	for (; count < view->row_count; count++) {
		const struct row *row = &view->row[speedscope->order[count]];
		if (metric_value(&row->sums, metric) <= 0)
			break;
		*ret_sum += metric_value(&row->sums, metric);
	}
	return count;
}

static struct ht_err *put_profile(struct speedscope *speedscope, enum metric metric)
{
	const struct view *view = speedscope->view;
	FILE *out = speedscope->out;
	int64_t sum;
	free(speedscope->order);
	HT_TRY(view_order(view, metric, &speedscope->order));
	const size_t count = count_rows(speedscope, metric, &sum);
	fprintf(out,
		"{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,"
		"\"endValue\":%" PRIi64 ",\n\"samples\":[",
		metric_info(metric)->name,
		metric_info(metric)->unit == METRIC_BYTES ? "bytes" : "none", sum);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "", out);
		put_stack(speedscope, &view->row[speedscope->order[i]]);
	}
	fputs("],\n\"weights\":[", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%" PRIi64, i ? "," : "",
			metric_value(&view->row[speedscope->order[i]].sums, metric));
	fputs("]}", out);
	return NULL;
}

static void put_frame(struct speedscope *speedscope, uint32_t group)
{
	const struct view *view = speedscope->view;
	const struct frame *frame = &view->frames.frame[view->groups.group[group].frame];
	FILE *out = speedscope->out;
	char name[NAMES_BYTES];
	names_frame(view, frame, name);
	fputs(",\n{\"name\":", out);
	names_put_json(out, name);
	if (frame->file)
		names_copy(name, frame->file);
	else
		names_module(view, frame->module, name);
	if (*name) {
		fputs(",\"file\":", out);
		names_put_json(out, name);
	}
	if (frame->file && frame->line)
		fprintf(out, ",\"line\":%" PRIu32, frame->line);
	putc('}', out);
}

static struct ht_err *put_profiles(struct speedscope *speedscope)
{
	const bool is_sample = speedscope->view->analysis->cube.sample_bytes != 0;
	struct ht_err *err = NULL;
	fputs("\"profiles\":[", speedscope->out);
	for (size_t i = 0; i < HT_ARRAY_SIZE(shown) && !err; i++) {
		if (shown[i] == METRIC_TEMPORARY && is_sample)
			continue;
		fputs(i ? ",\n" : "\n", speedscope->out);
		err = put_profile(speedscope, shown[i]);
	}
	fputs("],\n", speedscope->out);
	return err;
}

static void put_head(const struct speedscope *speedscope)
{
	const struct model *model = &speedscope->view->analysis->model;
	char name[NAMES_BYTES];
	names_copy(name, model->comm ? model->comm : "unknown");
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
	      "\"exporter\":\"heaptap " HEAPTAP_VERSION "\",\"activeProfileIndex\":0,\"name\":",
		speedscope->out);
	names_put_json(speedscope->out, name);
	fputs(",\n", speedscope->out);
}

static void put_frames(struct speedscope *speedscope)
{
	fputs("\"shared\":{\"frames\":[\n{\"name\":\"(no stack)\"},\n{\"name\":\"(folded)\"}",
		speedscope->out);
	for (uint32_t i = 0; i < speedscope->groups.count; i++)
		put_frame(speedscope, speedscope->groups.index[i]);
	fputs("]}}\n", speedscope->out);
}

struct ht_err *export_speedscope(FILE *out, struct export_job *job)
{
	const struct view *view = job->view;
	struct speedscope speedscope = {.out = out, .view = view};
	struct ht_err *err = names_chain_init(&speedscope.chain, view);
	HT_THEN(err, numbers_init(&speedscope.groups, view->groups.count, "frames"));
	if (!err) {
		put_head(&speedscope);
		err = put_profiles(&speedscope);
	}
	if (!err)
		put_frames(&speedscope);
	names_chain_deinit(&speedscope.chain);
	free(speedscope.order);
	numbers_deinit(&speedscope.groups);
	return err;
}
