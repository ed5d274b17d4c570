/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/analysis.h"

#include <stdlib.h>

/* The cube of all recorded blocks. */
static struct cube *whole_of(struct analysis *analysis)
{
	return analysis->filters_blocks ? &analysis->whole : &analysis->cube;
}

static bool is_of_size(const struct analysis *analysis, uint64_t bytes)
{
	return analysis->min_size <= bytes && bytes <= analysis->max_size;
}

static bool is_of_age(const struct analysis *analysis, uint64_t age_ns)
{
	return analysis->min_age_ns <= age_ns && age_ns <= analysis->max_age_ns;
}

/* Whether the query chooses a block that ends at `death_ns`. */
static bool is_chosen(
	const struct analysis *analysis, const struct live_block *block, uint64_t death_ns)
{
	return is_of_size(analysis, block->size) &&
	       is_of_age(analysis, death_ns > block->birth_ns ? death_ns - block->birth_ns : 0);
}

static struct ht_err *allocated(
	void *context, const struct replay_call *call, struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	cube->sample_bytes = analysis->whole.sample_bytes = analysis->model.capture.sample_bytes;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_allocated(&analysis->heap_notes.spread, block);
	if (ht_likely(!analysis->filters_blocks))
		return cube_allocated(cube, call, block);
	HT_TRY(cube_allocated(&analysis->whole, call, block));
	/* is_unordered: the query selects by age, which is known only when the block is freed. */
	if (cube->is_unordered || !is_of_size(analysis, block->size))
		return cube_pass(cube, call->time_ns);
	struct live_block chosen = *block;
	return cube_allocated(cube, call, &chosen);
}

static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	/* A sample lacks most allocations between this block and its free; CULLED records count
	 * temporary blocks themselves. */
	temporary = temporary && !cube->sample_bytes && !cube->is_culled;
	if (ht_unlikely(analysis->heap_notes.spread.is_on))
		spread_freed(&analysis->heap_notes.spread, block);
	if (ht_likely(!analysis->filters_blocks))
		return cube_freed(cube, call, block, temporary);
	HT_TRY(cube_freed(&analysis->whole, call, block, temporary));
	if (!is_chosen(analysis, block, call->time_ns))
		return cube_pass(cube, call->time_ns);
	struct live_block chosen = *block;
	/* The note is the site's number in analysis->whole. */
	chosen.note = 0;
	return cube->is_unordered ? cube_lived(cube, &chosen, call, temporary)
				  : cube_freed(cube, call, &chosen, temporary);
}

static struct ht_err *before_freed(
	void *context, const struct replay_call *call, uint64_t usable_bytes)
{
	struct analysis *analysis = context;
	if (analysis->filters_blocks)
		HT_TRY(cube_pass(&analysis->cube, call->time_ns));
	/* A sample records only frees of sampled blocks, so the allocation of this block was lost.
	 */
	if (analysis->model.capture.sample_bytes)
		return NULL;
	return cube_before_freed(whole_of(analysis), call, usable_bytes,
		heap_before_freed(&analysis->heap_notes, usable_bytes));
}

static struct ht_err *settled(
	void *context, const struct replay_call *call, const struct live_block *block)
{
	struct analysis *analysis = context;
	struct cube *cube = &analysis->cube;
	struct live_block chosen = *block;
	HT_TRY(cube_settled(whole_of(analysis), block, call->time_ns));
	if (!analysis->filters_blocks || !is_chosen(analysis, block, call->time_ns))
		return NULL;
	chosen.note = 0;
	if (cube->is_unordered)
		HT_TRY(cube_lived(cube, &chosen, NULL, false));
	return cube_settled(cube, &chosen, call->time_ns);
}

static struct ht_err *lived_on(void *context, const struct live_block *block)
{
	struct analysis *analysis = context;
	const struct model *model = &analysis->model;
	const uint64_t end_ns = model->settle.is_there ? model->settle.end_ns : model->duration_ns;
	if (!analysis->cube.is_unordered || !is_chosen(analysis, block, end_ns))
		return NULL;
	return cube_lived(&analysis->cube, block, NULL, false);
}

static void choose_blocks(struct analysis *analysis, const struct query *query)
{
	analysis->min_size = query->min_size;
	analysis->max_size = query->max_size;
	analysis->min_age_ns = query->min_age_ns;
	analysis->max_age_ns = query->max_age_ns;
	analysis->filters_blocks = true;
	analysis->cube.is_unordered = query->min_age_ns || query->max_age_ns != UINT64_MAX;
	cube_init(&analysis->whole);
}

/* --- facts other than blocks ------------------------------------------------------------------ */

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

static struct ht_err *captured(void *context)
{
	struct analysis *analysis = context;
	if (!analysis->model.capture.cull_ns || analysis->cube.is_culled)
		return NULL;
	analysis->cube.is_part = analysis->filters_blocks;
	HT_TRY(cube_cull(&analysis->cube));
	return analysis->filters_blocks ? cube_cull(&analysis->whole) : NULL;
}

static struct cube_culled culled_of(const struct model_culled *culled)
{
	const uint64_t *number = culled->entry.number;
	const uint64_t key = number[CULLED_BLOCKS_KEY];
	const uint64_t age = number[CULLED_BLOCKS_AGE];
	const bool in_window = age <= culled->time_ns / TRACE_CULLED_NS;
	return (struct cube_culled){.stack = culled->stack,
		.thread = culled->thread,
		.hook = key >> CULLED_KEY_HOOK_SHIFT & CULLED_KEY_HOOK,
		.size_class = key & CULLED_KEY_CLASS,
		.birth_ns = in_window ? culled->time_ns - age * TRACE_CULLED_NS : 0,
		.death_ns = culled->time_ns,
		.blocks = number[CULLED_BLOCKS_COUNT],
		.bytes = number[CULLED_BLOCKS_BYTES],
		.lifetime_us = number[CULLED_BLOCKS_LIFETIME_US],
		.longest_ns = number[CULLED_BLOCKS_LONGEST_NS],
		.temporary = number[CULLED_BLOCKS_TEMPORARY]};
}

/* A sum has only a mean size and a mean age: by these, all its blocks are chosen or none. */
static bool is_sum_chosen(const struct analysis *analysis, const struct cube_culled *sum)
{
	return sum->blocks && is_of_size(analysis, sum->bytes / sum->blocks) &&
	       is_of_age(analysis, sum->lifetime_us / sum->blocks * 1000);
}

static struct ht_err *count_blocks(struct analysis *analysis, const struct cube_culled *culled)
{
	if (culled->size_class >= CUBE_SIZE_CLASSES)
		return NULL;
	HT_TRY(cube_culled_blocks(whole_of(analysis), culled));
	return analysis->filters_blocks && is_sum_chosen(analysis, culled)
		       ? cube_culled_blocks(&analysis->cube, culled)
		       : NULL;
}

static struct ht_err *count_head(struct analysis *analysis, const struct model_culled *culled)
{
	HT_TRY(cube_culled_head(whole_of(analysis), culled->time_ns, culled->head));
	return analysis->filters_blocks
		       ? cube_culled_head(&analysis->cube, culled->time_ns, culled->head)
		       : NULL;
}

static struct ht_err *culled(void *context, const struct model_culled *culled)
{
	struct analysis *analysis = context;
	struct cube *whole = whole_of(analysis);
	const uint64_t *number = culled->entry.number;
	const struct cube_culled site = culled_of(culled);
	if (!whole->is_culled)
		return NULL;
	if (culled->head)
		return count_head(analysis, culled);
	switch (culled->entry.kind) {
	case CULLED_BLOCKS:
		return count_blocks(analysis, &site);
	case CULLED_PEAK:
		return site.size_class < CUBE_SIZE_CLASSES
			       ? cube_culled_peak(
					 whole, &site, culled_unfold(number[CULLED_PEAK_CHANGE]))
			       : NULL;
	case CULLED_FREES:
		return cube_count_caller(whole, culled->thread,
			number[CULLED_FREES_FUNCTION] % REPLAY_HOOKS,
			&(struct cube_calls){.frees = number[CULLED_FREES_COUNT],
				.freed_bytes = number[CULLED_FREES_BYTES]});
	case CULLED_LIVES:
		cube_culled_lives(whole, number[CULLED_LIVES_CLASS], number[CULLED_LIVES_COUNT],
			number[CULLED_LIVES_BYTES]);
		return NULL;
	default:
		return NULL;
	}
}

static struct ht_err *finish(struct analysis *analysis)
{
	/* Set it here too, for a trace without any event. */
	analysis->cube.sample_bytes = analysis->model.capture.sample_bytes;
	analysis->whole.sample_bytes = analysis->model.capture.sample_bytes;
	mappings_finish(&analysis->mappings);
	HT_TRY(cube_finish(&analysis->cube));
	if (analysis->filters_blocks)
		HT_TRY(cube_finish(&analysis->whole));
	analysis->heap = heap_of(&analysis->model, &analysis->heap_notes, analysis_whole(analysis));
	return NULL;
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
		.captured = captured,
		.culled = culled,
	};
	cube_init(&analysis->cube);
	if (query && query_filters_blocks(query)) {
		choose_blocks(analysis, query);
		observer.replay.lived_on = lived_on;
	}
	struct ht_err *err =
		model_reading_create(&analysis->model, fd, name, &observer, &analysis->reading);
	if (err)
		analysis_destroy(analysis);
	else
		*ret = analysis;
	return err;
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
	HT_TRY(begin(fd, name, query, &analysis));
	struct ht_err *err = analysis_continue(analysis, UINT64_MAX);
	HT_THEN(err, analysis_end(analysis));
	if (err)
		analysis_destroy(analysis);
	else
		*ret = analysis;
	return err;
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
