/* SPDX-License-Identifier: Apache-2.0
 *
 * DHAT's JSON, version 2, for valgrind's dh_view.html: per chain the allocations, total lifetime,
 * own maximum, share of the peak, and outstanding blocks. The viewer rejects a chain that occurs
 * twice, so frames are numbered by group and not by their text.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/export/numbers.h"
#include "format/array.h"

#define NS_PER_US 1000u
#define SHORT_US  1000u /* field "tuth": the viewer counts lives up to this as short */

/* Frames that every file has. */
enum { FRAME_ROOT, FRAME_NO_STACK, FRAME_OTHER, FRAME_GROUPS };

struct dhat {
	FILE *out;
	const struct view *view;
	struct numbers groups; /* by group; a frame's number is this + FRAME_GROUPS */
	struct window_series series;
};

/* Estimated figures of a row, which the cube knows only at the ends of buckets. */
struct estimate {
	uint64_t lives_us; /* of all blocks, including those live at the end */
	uint64_t max_bytes, max_blocks;
	uint64_t peak_blocks;
};

static uint64_t at_least(uint64_t value, uint64_t least)
{
	return value > least ? value : least;
}

/* Assumes that a live block was allocated in the middle of its bucket. */
static uint64_t lives_of_left(const struct dhat *dhat)
{
	const struct view *view = dhat->view;
	const uint64_t step_ns = view->analysis->cube.step_ns;
	uint64_t lives_us = 0;
	for (uint32_t i = 0; i < dhat->series.count; i++) {
		const uint64_t born_ns = view->from_ns + i * step_ns + step_ns / 2;
		if (born_ns < view->to_ns)
			lives_us += dhat->series.surviving_blocks[i] * (view->to_ns - born_ns) /
				    NS_PER_US;
	}
	return lives_us;
}

static struct estimate estimate_of(struct dhat *dhat, const struct row *row)
{
	const struct view *view = dhat->view;
	const struct sums *sums = &row->sums;
	struct estimate estimate = {.lives_us = sums->lifetime_us};
	uint64_t blocks = 0;
	view_series(view, row, &dhat->series);
	estimate.lives_us += lives_of_left(dhat);
	for (uint32_t i = 0; i < dhat->series.count; i++) {
		const int64_t bytes = dhat->series.live_bytes[i];
		blocks += dhat->series.allocated_blocks[i] - dhat->series.freed_blocks[i];
		estimate.max_bytes = at_least(estimate.max_bytes, bytes > 0 ? (uint64_t)bytes : 0);
		estimate.max_blocks = at_least(estimate.max_blocks, blocks);
	}
	/* Blocks at the peak: the share of the peak's bytes divided by the mean size. */
	if (sums->allocated_bytes)
		estimate.peak_blocks =
			(uint64_t)((double)sums->peak_bytes * (double)sums->allocations /
					   (double)sums->allocated_bytes +
				   0.5);
	estimate.max_bytes = at_least(estimate.max_bytes, sums_outstanding_bytes(sums));
	estimate.max_bytes = at_least(estimate.max_bytes, sums->peak_bytes);
	estimate.max_blocks = at_least(estimate.max_blocks, sums_outstanding_blocks(sums));
	estimate.max_blocks = at_least(estimate.max_blocks, estimate.peak_blocks);
	return estimate;
}

static uint32_t number_of(struct dhat *dhat, uint32_t node)
{
	const uint32_t group = dhat->view->tree.node[node].group;
	if (group == UINT32_MAX)
		return node ? FRAME_OTHER : FRAME_NO_STACK;
	return FRAME_GROUPS + numbers_get(&dhat->groups, group);
}

static void put_row(struct dhat *dhat, const struct row *row)
{
	const struct sums *sums = &row->sums;
	const struct estimate estimate = estimate_of(dhat, row);
	const char *comma = "";
	fprintf(dhat->out,
		"{\"tb\":%" PRIu64 ",\"tbk\":%" PRIu64 ",\"tl\":%" PRIu64 ",\"mb\":%" PRIu64
		",\"mbk\":%" PRIu64 ",\"gb\":%" PRIu64 ",\"gbk\":%" PRIu64 ",\"eb\":%" PRIu64
		",\"ebk\":%" PRIu64 ",\"fs\":[",
		sums->allocated_bytes, sums->allocations, estimate.lives_us, estimate.max_bytes,
		estimate.max_blocks, sums->peak_bytes, estimate.peak_blocks,
		sums_outstanding_bytes(sums), sums_outstanding_blocks(sums));
	if (!row->node)
		fprintf(dhat->out, "%u", FRAME_NO_STACK);
	for (uint32_t at = row->node; at; at = dhat->view->tree.node[at].parent) {
		fprintf(dhat->out, "%s%" PRIu32, comma, number_of(dhat, at));
		comma = ",";
	}
	fputs("]}", dhat->out);
}

static void put_group(struct dhat *dhat, uint32_t group)
{
	const struct view *view = dhat->view;
	const struct frame *frame = &view->frames.frame[view->groups.group[group].frame];
	char name[NAMES_BYTES], file[NAMES_BYTES];
	char text[2 * NAMES_BYTES + 64];
	names_frame(view, frame, name);
	if (frame->file) {
		names_copy(file, names_base(frame->file));
		snprintf(text, sizeof(text), "0x%" PRIX64 ": %s (%s:%" PRIu32 ")",
			names_address(view, frame), name, file, frame->line);
	} else {
		names_module(view, frame->module, file);
		snprintf(text, sizeof(text),
			*file ? "0x%" PRIX64 ": %s (in %s)" : "0x%" PRIX64 ": %s",
			names_address(view, frame), name, file);
	}
	fputs(",\n", dhat->out);
	names_put_json(dhat->out, text);
}

static void put_frames(struct dhat *dhat)
{
	fputs("\"ftbl\":[\"[root]\",\n\"(no stack)\",\n\"(folded)\"", dhat->out);
	for (uint32_t i = 0; i < dhat->groups.count; i++)
		put_group(dhat, dhat->groups.index[i]);
	fputs("]}\n", dhat->out);
}

/* Times count from the start of the window; the viewer prints any unit. */
static void put_head(const struct dhat *dhat)
{
	const struct view *view = dhat->view;
	const struct model *model = &view->analysis->model;
	const uint64_t peak_ns =
		view->peak.time_ns > view->from_ns ? view->peak.time_ns - view->from_ns : 0;
	char name[NAMES_BYTES];
	names_copy(name, model->exe && *model->exe ? model->exe : "unknown");
	fprintf(dhat->out,
		"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,"
		"\"bkacc\":false,\"tu\":\"\\u00b5s\",\"Mtu\":\"s\",\"tuth\":%u,\n\"cmd\":",
		SHORT_US);
	names_put_json(dhat->out, name);
	fprintf(dhat->out, ",\"pid\":%" PRIu64 ",\"te\":%" PRIu64 ",\"tg\":%" PRIu64 ",\n",
		model->target.pid, (view->to_ns - view->from_ns) / NS_PER_US, peak_ns / NS_PER_US);
}

static void put_rows(struct dhat *dhat, const uint32_t *order)
{
	const struct view *view = dhat->view;
	const char *comma = "";
	fputs("\"pps\":[", dhat->out);
	for (size_t i = 0; i < view->row_count; i++) {
		const struct row *row = &view->row[order[i]];
		if (!row->sums.allocations && !row->sums.peak_bytes)
			continue;
		fprintf(dhat->out, "%s\n", comma);
		put_row(dhat, row);
		comma = ",";
	}
	fputs("],\n", dhat->out);
}

struct ht_err *export_dhat(FILE *out, struct export_job *job)
{
	const struct view *view = job->view;
	HT_FREED uint32_t *order = NULL;
	HT_FREED struct dhat *dhat = calloc(1, sizeof(*dhat));
	if (!dhat)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for an export");
	dhat->out = out;
	dhat->view = view;
	struct ht_err *err = numbers_init(&dhat->groups, view->groups.count, "frames");
	HT_THEN(err, view_order(view, job->metric, &order));
	if (!err) {
		put_head(dhat);
		put_rows(dhat, order);
		put_frames(dhat);
	}
	numbers_deinit(&dhat->groups);
	return err;
}
