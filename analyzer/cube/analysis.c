/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/analysis.h"

#include <stdlib.h>

static struct ht_err *allocated(
	void *context, const struct replay_call *call, const struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	cube->sample_bytes = analysis->model.capture.sample_bytes;
	return cube_allocated(cube, call, block);
}

static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct analysis *analysis = context;
	/* What was allocated in between is mostly not in the sample. */
	temporary = temporary && !analysis->cube.sample_bytes;
	return cube_freed(&analysis->cube, call, block, temporary);
}

static struct ht_err *before_freed(
	void *context, const struct replay_call *call, uint64_t usable_bytes)
{
	struct analysis *analysis = context;
	/* In a sample that is a block whose allocation was lost. */
	if (analysis->model.capture.sample_bytes)
		return NULL;
	return cube_before_freed(&analysis->cube, call, usable_bytes,
		heap_before_freed(&analysis->heap_notes, usable_bytes));
}

static struct ht_err *mapped(void *context, uint32_t stream, const struct event *event)
{
	struct analysis *analysis = context;
	return mappings_event(&analysis->mappings, stream, event,
		timebase_ns(&analysis->model.timebase, event->tsc));
}

static struct ht_err *mapped_before(void *context, const struct rec_range *range)
{
	struct analysis *analysis = context;
	return mappings_before(&analysis->mappings, range);
}

static struct ht_err *rss(void *context, uint64_t time_ns, uint64_t rss_bytes)
{
	struct analysis *analysis = context;
	timeline_rss(&analysis->cube.timeline, time_ns, rss_bytes);
	return NULL;
}

static struct ht_err *symbol(void *context, const struct rec_symbol *rec)
{
	struct analysis *analysis = context;
	struct model *model = &analysis->model;
	return symbols_take(&analysis->symbols, &model->strings, &model->modules, rec);
}

static struct ht_err *heap(void *context, size_t index, bool ended)
{
	struct analysis *analysis = context;
	heap_note(&analysis->heap_notes, &analysis->model, &analysis->cube, index, ended);
	return NULL;
}

struct ht_err *analysis_create(int fd, const char *name, struct analysis **ret)
{
	struct analysis *analysis = calloc(1, sizeof(*analysis));
	if (!analysis)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for an analysis");
	const struct model_observer observer = {
		.replay = {.context = analysis,
			.allocated = allocated,
			.freed = freed,
			.before_freed = before_freed,
			.mapped = mapped},
		.rss = rss,
		.symbol = symbol,
		.heap = heap,
		.mapped_before = mapped_before,
	};
	cube_init(&analysis->cube);
	struct ht_err *err = model_load(&analysis->model, fd, name, &observer);
	if (err) {
		analysis_destroy(analysis);
		return err;
	}
	/* Also where there was no event to say so. */
	analysis->cube.sample_bytes = analysis->model.capture.sample_bytes;
	mappings_finish(&analysis->mappings);
	err = cube_finish(&analysis->cube);
	if (err) {
		analysis_destroy(analysis);
		return err;
	}
	analysis->heap = heap_of(&analysis->model, &analysis->heap_notes, &analysis->cube);
	*ret = analysis;
	return NULL;
}

void analysis_destroy(struct analysis *analysis)
{
	if (!analysis)
		return;
	cube_deinit(&analysis->cube);
	mappings_deinit(&analysis->mappings);
	symbols_deinit(&analysis->symbols);
	model_deinit(&analysis->model);
	free(analysis);
}

static struct ht_err *add_symbol(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count)
{
	struct analysis *analysis = context;
	return symbols_improve(
		&analysis->symbols, &analysis->model.strings, place, frame, frame_count);
}

struct ht_err *analysis_resolve(struct analysis *analysis, const struct resolve_files *files)
{
	return resolve_places(&analysis->model, &analysis->symbols, files, add_symbol, analysis);
}
