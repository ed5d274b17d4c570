/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/gather.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/strings.h"
#include "analyzer/views/callers.h"
#include "analyzer/views/suspects.h"
#include "format/foreign.h"

#define NS_PER_S      1000000000ull
#define NS_PER_MINUTE (60 * NS_PER_S)
#define LABEL_BYTES   (2 * SNAPSHOT_NAME_BYTES)

/* Rows of the view with equal callers_key. */
struct site {
	uint32_t first, count; /* gather.order[first .. first + count) */
	uint32_t largest;      /* the row with most outstanding, then allocated bytes */
	struct sums sums;
	const struct suspect *suspect; /* NULL: not classified */
};

struct gather {
	const struct view *view;
	struct callers_key *key; /* by node */
	uint32_t *order;	 /* rows of the view, by site */
	struct site *site;
	size_t site_count;
	struct suspects suspects;
	struct window_series *series;
	uint32_t *text_of; /* by frame of the view: its text + 1; 0: none yet */
	FILE *texts, *frames;
	char *text, *frame;
	size_t text_bytes, frame_bytes;
	struct snapshot snapshot;
};

/* --- texts ----------------------------------------------------------------------------------- */

static void put_text(struct gather *gather, const char *string)
{
	char harmless[SNAPSHOT_NAME_BYTES];
	foreign_copy(harmless, sizeof(harmless), string);
	fwrite(harmless, strlen(harmless) + 1, 1, gather->texts);
}

static void put_frame(struct gather *gather, const struct frame *frame)
{
	char label[LABEL_BYTES] = "";
	const struct modules *modules = &gather->view->analysis->model.modules;
	const char *module = frame->module == MODULES_NONE
				     ? NULL
				     : strings_base_name(modules->module[frame->module].path);
	if (!frame->function)
		snprintf(label, sizeof(label), module ? "%.*s+0x%" PRIx64 : "%.*s0x%" PRIx64,
			(int)SNAPSHOT_NAME_BYTES, module ? module : "", frame->offset);
	put_text(gather, frame->function ? frame->function : label);
	if (frame->file && frame->line)
		snprintf(label, sizeof(label), "%.*s:%" PRIu32, (int)SNAPSHOT_NAME_BYTES,
			strings_base_name(frame->file), frame->line);
	else
		snprintf(label, sizeof(label), "%.*s", (int)SNAPSHOT_NAME_BYTES,
			frame->file		    ? strings_base_name(frame->file)
			: frame->function && module ? module
						    : "");
	put_text(gather, label);
}

/* The text of a node: function and place. */
static uint32_t text_of(struct gather *gather, uint32_t node)
{
	const struct frame *frame = node ? callers_frame(gather->view, node) : NULL;
	if (!frame) {
		const uint32_t ret = (uint32_t)ftell(gather->texts);
		put_text(gather, node ? "(folded: stacks that allocated little)" : "(no stack)");
		put_text(gather, "");
		return ret;
	}
	uint32_t *known = &gather->text_of[frame - gather->view->frames.frame];
	if (!*known) {
		*known = (uint32_t)ftell(gather->texts) + 1;
		put_frame(gather, frame);
	}
	return *known - 1;
}

static void put_chain(struct gather *gather, struct snapshot_row *row, uint32_t node)
{
	const struct view *view = gather->view;
	row->frame = (uint32_t)((size_t)ftell(gather->frames) / sizeof(uint32_t));
	for (uint32_t at = node; at && row->frame_count < SNAPSHOT_FRAMES_MAX;
		at = view->tree.node[at].parent, row->frame_count++) {
		const uint32_t text = text_of(gather, at);
		fwrite(&text, sizeof(text), 1, gather->frames);
	}
}

/* --- figures --------------------------------------------------------------------------------- */

static struct snapshot_sums sums_of(const struct sums *sums)
{
	return (struct snapshot_sums){
		.outstanding_bytes = sums_outstanding_bytes(sums),
		.outstanding_blocks = sums_outstanding_blocks(sums),
		.outstanding_bound_bytes = (uint64_t)metric_bound(sums, METRIC_OUTSTANDING),
		.allocated_bytes = sums->allocated_bytes,
		.allocations = sums->allocations,
		.temporary = sums->temporary,
	};
}

/* Change of live bytes within the last minute; of a shorter capture, its change extrapolated to a
 * minute. */
static int64_t per_minute(const struct view *view, const struct window_series *series)
{
	const uint64_t step_ns = view->analysis->cube.step_ns;
	const uint64_t back = (NS_PER_MINUTE + step_ns - 1) / step_ns;
	if (!series->count)
		return 0;
	const bool is_whole = series->count <= back;
	const int64_t then = is_whole ? 0 : series->live_bytes[series->count - 1 - back];
	const uint64_t then_ns = is_whole ? 0 : (series->count - back) * step_ns;
	const uint64_t span_ns = view->to_ns - view->from_ns - then_ns;
	const double change = (double)(series->live_bytes[series->count - 1] - then);
	return span_ns < NS_PER_S ? 0 : (int64_t)(change * (double)NS_PER_MINUTE / (double)span_ns);
}

static uint32_t make_trend(const struct window_series *series, uint64_t ret[SNAPSHOT_TREND])
{
	const uint32_t count = series->count < SNAPSHOT_TREND ? series->count : SNAPSHOT_TREND;
	for (uint32_t i = 0; i < count; i++) {
		const int64_t live =
			series->live_bytes[(uint64_t)(i + 1) * series->count / count - 1];
		ret[i] = live > 0 ? (uint64_t)live : 0;
	}
	return count;
}

static uint64_t oldest_of(const struct view *view, const struct window_series *series)
{
	for (uint32_t i = 0; i < series->count; i++)
		if (series->surviving_blocks[i])
			return (series->count - i) * view->analysis->cube.step_ns;
	return 0;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
	return strings_hash(hash, text, strlen(text) + 1);
}

/* The id of a site: a hash of its visible texts, because numbers of nodes and functions differ
 * between snapshots. */
static uint64_t identify(struct gather *gather, const struct snapshot_row *row)
{
	const uint32_t text[] = {row->function, row->caller, row->script};
	struct snapshot *snapshot = &gather->snapshot;
	uint64_t hash = STRINGS_HASH;
	fflush(gather->texts);
	snapshot->text = gather->text;
	snapshot->text_bytes = (uint32_t)gather->text_bytes;
	for (size_t i = 0; i < HT_ARRAY_SIZE(text); i++) {
		hash = add_text(hash, snapshot_function(snapshot, text[i]));
		/* Leave out the lines of callers, which are not shown. */
		if (i == 0)
			hash = add_text(hash, snapshot_place(snapshot, text[i]));
	}
	return hash;
}

static struct ht_err *make_row(
	struct gather *gather, const struct site *site, struct snapshot_row *ret)
{
	const struct view *view = gather->view;
	const uint32_t node = view->row[site->largest].node;
	HT_TRY(view_rows_series(view, gather->order + site->first, site->count, gather->series));
	memset(ret, 0, sizeof(*ret));
	ret->sums = sums_of(&site->sums);
	ret->sums.per_minute_bytes = per_minute(view, gather->series);
	ret->oldest_ns = oldest_of(view, gather->series);
	ret->is_growing = site->suspect && site->suspect->class == SUSPECT_GROWING;
	ret->slope_bytes_per_s = ret->is_growing ? site->suspect->slope_bytes_per_s : 0;
	ret->chains = site->count;
	ret->trend_count = make_trend(gather->series, ret->trend);
	const uint32_t caller = node ? callers_next(view, node) : 0;
	const uint32_t script = node ? callers_script(view, node) : 0;
	ret->function = text_of(gather, node);
	ret->caller = caller ? text_of(gather, caller) : SNAPSHOT_NONE;
	ret->script = script && script != caller ? text_of(gather, script) : SNAPSHOT_NONE;
	put_chain(gather, ret, node);
	ret->id = identify(gather, ret);
	return NULL;
}

static void make_figures(struct gather *gather)
{
	const struct view *view = gather->view;
	const struct model *model = &view->analysis->model;
	const struct timeline *timeline = &view->analysis->cube.timeline;
	struct snapshot_figures *figures = &gather->snapshot.figures;
	view_total_series(view, view->window, gather->series);
	figures->time_ns = view->to_ns;
	figures->sums = sums_of(&view->total);
	figures->sums.per_minute_bytes = per_minute(view, gather->series);
	figures->trend_count = make_trend(gather->series, figures->trend);
	figures->is_estimate = model->capture.sample_bytes != 0;
	figures->threads = model->threads.count;
	figures->sites = gather->site_count;
	figures->has_end = model->has_end;
	figures->end_reason = model->end.reason;
	for (size_t i = 0; i < timeline->count; i++)
		if (timeline->memory[i].is_known[MEMORY_RSS]) {
			figures->has_rss = true;
			figures->rss_bytes = timeline->memory[i].number[MEMORY_RSS];
		}
	for (size_t i = 0; i < gather->suspects.growing; i++)
		figures->slope_bytes_per_s += gather->suspects.entry[i].suspect.slope_bytes_per_s;
	figures->growing = gather->suspects.growing;
}

/* --- sites ----------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct gather *gather = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct row *row = gather->view->row;
	const int order = callers_compare(&gather->key[row[x].node], &gather->key[row[y].node]);
	return order ? order : (x > y) - (x < y);
}

static bool is_larger(const struct sums *a, const struct sums *b)
{
	const uint64_t x = sums_outstanding_bytes(a), y = sums_outstanding_bytes(b);
	return x != y ? x > y : a->allocated_bytes > b->allocated_bytes;
}

static void add_row(struct gather *gather, uint32_t place)
{
	const struct row *row = gather->view->row;
	const uint32_t at = gather->order[place];
	struct site *site = gather->site_count ? &gather->site[gather->site_count - 1] : NULL;
	if (!site || callers_compare(&gather->key[row[site->largest].node],
			     &gather->key[row[at].node]) != 0) {
		site = &gather->site[gather->site_count++];
		*site = (struct site){.first = place, .largest = at};
	}
	site->count++;
	sums_add(&site->sums, &row[at].sums);
	if (is_larger(&row[at].sums, &row[site->largest].sums))
		site->largest = at;
}

/* Stores each suspect in the site of its row. */
static struct ht_err *add_suspects(struct gather *gather)
{
	uint32_t *site_of = calloc(gather->view->row_count + 1, sizeof(*site_of));
	if (!site_of)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for %zu stacks", gather->view->row_count);
	for (uint32_t i = 0; i < gather->site_count; i++)
		for (uint32_t k = 0; k < gather->site[i].count; k++)
			site_of[gather->order[gather->site[i].first + k]] = i;
	for (size_t i = 0; i < gather->suspects.count; i++) {
		const struct suspects_entry *entry = &gather->suspects.entry[i];
		gather->site[site_of[entry->row]].suspect = &entry->suspect;
	}
	free(site_of);
	return NULL;
}

static struct ht_err *find_sites(struct gather *gather)
{
	const struct view *view = gather->view;
	const size_t count = view->row_count;
	gather->order = malloc((count + 1) * sizeof(*gather->order));
	gather->site = malloc((count + 1) * sizeof(*gather->site));
	if (!gather->order || !gather->site)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", count);
	HT_TRY(callers_keys(view, &gather->key));
	HT_TRY(suspects_find(view, &gather->suspects));
	for (uint32_t i = 0; i < count; i++)
		gather->order[i] = i;
	qsort_r(gather->order, count, sizeof(*gather->order), compare_rows, gather);
	for (uint32_t i = 0; i < count; i++)
		add_row(gather, i);
	return add_suspects(gather);
}

static double slope_of(const struct site *site)
{
	return site->suspect && site->suspect->class == SUSPECT_GROWING
		       ? site->suspect->slope_bytes_per_s
		       : -1;
}

/* Growing sites first, then those with most outstanding bytes. */
static int compare_sites(const void *a, const void *b)
{
	const struct site *x = a, *y = b;
	const double slope = slope_of(x) - slope_of(y);
	if (slope < 0 || slope > 0)
		return slope > 0 ? -1 : 1;
	if (is_larger(&x->sums, &y->sums))
		return -1;
	return is_larger(&y->sums, &x->sums);
}

static struct ht_err *make_rows(struct gather *gather)
{
	struct snapshot *snapshot = &gather->snapshot;
	const size_t count =
		gather->site_count < SNAPSHOT_ROWS_MAX ? gather->site_count : SNAPSHOT_ROWS_MAX;
	struct ht_err *err = NULL;
	snapshot->row = calloc(count + 1, sizeof(*snapshot->row));
	if (!snapshot->row)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu sites", count);
	qsort(gather->site, gather->site_count, sizeof(*gather->site), compare_sites);
	for (; snapshot->row_count < count && !err; snapshot->row_count++)
		err = make_row(gather, &gather->site[snapshot->row_count],
			&snapshot->row[snapshot->row_count]);
	return err;
}

/* --- the whole ------------------------------------------------------------------------------- */

static struct ht_err *gather_all(struct gather *gather)
{
	const struct view *view = gather->view;
	gather->series = calloc(1, sizeof(*gather->series));
	gather->text_of = calloc(view->frames.count + 1, sizeof(*gather->text_of));
	gather->texts = open_memstream(&gather->text, &gather->text_bytes);
	gather->frames = open_memstream(&gather->frame, &gather->frame_bytes);
	if (!gather->series || !gather->text_of || !gather->texts || !gather->frames)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the figures");
	struct ht_err *err = find_sites(gather);
	HT_THEN(err, make_rows(gather));
	if (!err)
		make_figures(gather);
	return err;
}

static struct ht_err *finish(struct gather *gather, FILE *out)
{
	struct snapshot *snapshot = &gather->snapshot;
	/* End the texts with two zeros, so that each text has an end for both of its strings. */
	fwrite("\0", 2, 1, gather->texts);
	if (fflush(gather->texts) != 0 || fflush(gather->frames) != 0 || ferror(gather->texts) ||
		ferror(gather->frames) || gather->text_bytes > INT32_MAX)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the figures");
	snapshot->text = gather->text;
	snapshot->text_bytes = (uint32_t)gather->text_bytes;
	snapshot->frame = (uint32_t *)(void *)gather->frame;
	snapshot->frame_count = (uint32_t)(gather->frame_bytes / sizeof(uint32_t));
	return snapshot_write(out, snapshot);
}

static void deinit(struct gather *gather)
{
	if (gather->texts)
		fclose(gather->texts);
	if (gather->frames)
		fclose(gather->frames);
	suspects_deinit(&gather->suspects);
	free(gather->text);
	free(gather->frame);
	free(gather->snapshot.row);
	free(gather->text_of);
	free(gather->series);
	free(gather->site);
	free(gather->order);
	free(gather->key);
}

struct ht_err *gather_write(FILE *out, const struct view *view)
{
	struct gather gather = {.view = view};
	struct ht_err *err = gather_all(&gather);
	HT_THEN(err, finish(&gather, out));
	deinit(&gather);
	return err;
}
