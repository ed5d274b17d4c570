/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/analysis.h"

#include <stdlib.h>

static struct ht_err *allocated(
	void *context, const struct replay_call *call, struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	cube->sample_bytes = analysis->model.capture.sample_bytes;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_allocated(&analysis->heap_notes.spread, block);
	return cube_allocated(cube, call, block);
}

static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct analysis *analysis = context;
	/* A sample lacks most allocations between this block and its free. */
	temporary = temporary && !analysis->cube.sample_bytes;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_freed(&analysis->heap_notes.spread, block);
	return cube_freed(&analysis->cube, call, block, temporary);
}

static struct ht_err *before_freed(
	void *context, const struct replay_call *call, uint64_t usable_bytes)
{
	struct analysis *analysis = context;
	/* In a sample this is a block whose allocation was lost. */
	if (analysis->model.capture.sample_bytes)
		return NULL;
	return cube_before_freed(&analysis->cube, call, usable_bytes,
		heap_before_freed(&analysis->heap_notes, usable_bytes));
}

static struct ht_err *settled(
	void *context, const struct replay_call *call, const struct live_block *block)
{
	struct analysis *analysis = context;
	return cube_settled(&analysis->cube, block, call->time_ns);
}

/* --- blocks chosen by size or age --------------------------------------------------------------
 */

static bool is_of_size(const struct analysis *analysis, const struct live_block *block)
{
	return analysis->min_size <= block->size && block->size <= analysis->max_size;
}

static uint64_t known_until(const struct model *model)
{
	return model->settle.is_there ? model->settle.end_ns : model->duration_ns;
}

static bool is_of_age(
	const struct analysis *analysis, const struct live_block *block, uint64_t death_ns)
{
	const uint64_t age_ns = death_ns > block->birth_ns ? death_ns - block->birth_ns : 0;
	return analysis->min_age_ns <= age_ns && age_ns <= analysis->max_age_ns;
}

static struct ht_err *allocated_any(
	void *context, const struct replay_call *call, struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	cube->sample_bytes = analysis->whole.sample_bytes = analysis->model.capture.sample_bytes;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_allocated(&analysis->heap_notes.spread, block);
	struct ht_err *err = cube_allocated(&analysis->whole, call, block);
	if (err)
		return err;
	/* The block's age is not known yet. */
	if (cube->is_unordered || !is_of_size(analysis, block))
		return cube_pass(cube, call->time_ns);
	struct live_block chosen = *block;
	return cube_allocated(cube, call, &chosen);
}

static struct ht_err *freed_any(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	temporary = temporary && !cube->sample_bytes;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_freed(&analysis->heap_notes.spread, block);
	struct ht_err *err = cube_freed(&analysis->whole, call, block, temporary);
	if (err)
		return err;
	if (!is_of_size(analysis, block) || !is_of_age(analysis, block, call->time_ns))
		return cube_pass(cube, call->time_ns);
	struct live_block chosen = *block;
	/* The note belongs to the other cube. */
	chosen.note = 0;
	return cube->is_unordered ? cube_lived(cube, &chosen, call, temporary)
				  : cube_freed(cube, call, &chosen, temporary);
}

static struct ht_err *before_freed_any(
	void *context, const struct replay_call *call, uint64_t usable_bytes)
{
	struct analysis *analysis = context;
	struct ht_err *err = cube_pass(&analysis->cube, call->time_ns);
	if (err || analysis->model.capture.sample_bytes)
		return err;
	return cube_before_freed(&analysis->whole, call, usable_bytes,
		heap_before_freed(&analysis->heap_notes, usable_bytes));
}

static struct ht_err *settled_any(
	void *context, const struct replay_call *call, const struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	struct live_block chosen = *block;
	struct ht_err *err = cube_settled(&analysis->whole, block, call->time_ns);
	if (err || !is_of_size(analysis, block) || !is_of_age(analysis, block, call->time_ns))
		return err;
	chosen.note = 0;
	if (cube->is_unordered)
		err = cube_lived(cube, &chosen, NULL, false);
	return err ? err : cube_settled(cube, &chosen, call->time_ns);
}

static struct ht_err *lived_on(void *context, const struct live_block *block)
{
	struct analysis *analysis = context;
	if (!analysis->cube.is_unordered || !is_of_size(analysis, block) ||
		!is_of_age(analysis, block, known_until(&analysis->model)))
		return NULL;
	return cube_lived(&analysis->cube, block, NULL, false);
}

static void choose_blocks(
	struct analysis *analysis, const struct query *query, struct model_observer *observer)
{
	analysis->min_size = query->min_size;
	analysis->max_size = query->max_size;
	analysis->min_age_ns = query->min_age_ns;
	analysis->max_age_ns = query->max_age_ns;
	analysis->filters_blocks = true;
	analysis->cube.is_unordered = query->min_age_ns || query->max_age_ns != UINT64_MAX;
	cube_init(&analysis->whole);
	observer->replay.allocated = allocated_any;
	observer->replay.freed = freed_any;
	observer->replay.settled = settled_any;
	observer->replay.before_freed = before_freed_any;
	observer->replay.lived_on = lived_on;
}

/* --- what else passes by -----------------------------------------------------------------------
 */

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

static struct ht_err *memory(void *context, uint64_t time_ns, const struct memory *sample)
{
	struct analysis *analysis = context;
	timeline_note(&analysis->cube.timeline, time_ns, sample);
	if (analysis->filters_blocks)
		timeline_note(&analysis->whole.timeline, time_ns, sample);
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
	heap_note(&analysis->heap_notes, &analysis->model, analysis_whole(analysis), index, ended);
	return NULL;
}

static struct ht_err *finish(struct analysis *analysis)
{
	/* Also if the trace has no event. */
	analysis->cube.sample_bytes = analysis->model.capture.sample_bytes;
	analysis->whole.sample_bytes = analysis->model.capture.sample_bytes;
	mappings_finish(&analysis->mappings);
	struct ht_err *err = cube_finish(&analysis->cube);
	if (!err && analysis->filters_blocks)
		err = cube_finish(&analysis->whole);
	if (!err)
		analysis->heap =
			heap_of(&analysis->model, &analysis->heap_notes, analysis_whole(analysis));
	return err;
}

static struct ht_err *begin(
	int fd, const char *name, const struct query *query, struct analysis **ret)
{
	struct analysis *analysis = calloc(1, sizeof(*analysis));
	if (!analysis)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for an analysis");
	struct model_observer observer = {
		.replay = {.context = analysis,
			.allocated = allocated,
			.freed = freed,
			.settled = settled,
			.before_freed = before_freed,
			.mapped = mapped},
		.memory = memory,
		.symbol = symbol,
		.heap = heap,
		.mapped_before = mapped_before,
	};
	cube_init(&analysis->cube);
	if (query && query_filters_blocks(query))
		choose_blocks(analysis, query, &observer);
	struct ht_err *err =
		model_reading_create(&analysis->model, fd, name, &observer, &analysis->reading);
	if (err) {
		analysis_destroy(analysis);
		return err;
	}
	*ret = analysis;
	return NULL;
}

struct ht_err *analysis_begin(int fd, const char *name, struct analysis **ret)
{
	return begin(fd, name, NULL, ret);
}

struct ht_err *analysis_continue(struct analysis *analysis, uint64_t bytes)
{
	return model_reading_continue(analysis->reading, bytes);
}

struct ht_err *analysis_end(struct analysis *analysis)
{
	struct ht_err *err = model_reading_finish(analysis->reading);
	model_reading_destroy(analysis->reading);
	analysis->reading = NULL;
	return err ? err : finish(analysis);
}

struct ht_err *analysis_create(
	int fd, const char *name, const struct query *query, struct analysis **ret)
{
	struct analysis *analysis;
	struct ht_err *err = begin(fd, name, query, &analysis);
	if (err)
		return err;
	err = analysis_continue(analysis, UINT64_MAX);
	if (!err)
		err = analysis_end(analysis);
	if (err) {
		analysis_destroy(analysis);
		return err;
	}
	*ret = analysis;
	return NULL;
}

void analysis_destroy(struct analysis *analysis)
{
	if (!analysis)
		return;
	model_reading_destroy(analysis->reading);
	cube_deinit(&analysis->cube);
	cube_deinit(&analysis->whole);
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
