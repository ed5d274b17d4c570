/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/pauses.h"

/* The overlap of two spans. */
static uint64_t overlap_ns(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to)
{
	uint64_t from = a_from > b_from ? a_from : b_from, to = a_to < b_to ? a_to : b_to;
	return to > from ? to - from : 0;
}

struct pauses pauses_within(const struct model *model, uint64_t from_ns, uint64_t to_ns)
{
	struct pauses ret = {0};
	for (size_t i = 0; i < model->pause_count; i++) {
		const struct model_pause *pause = &model->pause[i];
		uint64_t common_ns = overlap_ns(pause->begin_ns, pause->end_ns, from_ns, to_ns);
		if (!common_ns)
			continue;
		if (!ret.count++) {
			ret.first_begin_ns = pause->begin_ns > from_ns ? pause->begin_ns : from_ns;
			ret.first_end_ns = ret.first_begin_ns + common_ns;
		}
		ret.sum_ns += common_ns;
	}
	return ret;
}

static bool is_paused(const struct view *view, uint32_t bucket)
{
	uint64_t step_ns = view->analysis->cube.step_ns;
	uint64_t from_ns = (view->window.from + (uint64_t)bucket) * step_ns;
	return pauses_within(&view->analysis->model, from_ns, from_ns + step_ns).sum_ns >=
	       step_ns - step_ns / 2;
}

/* Moves the counts of bucket `from` to `to`; `is_sum`: adds them. */
static void move(struct window_series *series, uint32_t from, uint32_t to, bool is_sum)
{
	uint64_t *const count[] = {series->allocated_bytes, series->allocated_blocks,
		series->surviving_bytes, series->surviving_blocks, series->freed_blocks,
		series->older_freed_blocks};
	for (size_t i = 0; i < HT_ARRAY_SIZE(count); i++)
		count[i][to] = count[i][from] + (is_sum ? count[i][to] : 0);
}

uint32_t pauses_cut(const struct view *view, uint32_t buckets, struct window_series *series)
{
	uint32_t kept = 0, last_kept = UINT32_MAX;
	if (!view->analysis->model.pause_count)
		return buckets;
	for (uint32_t i = 0; i < buckets; i++) {
		if (!is_paused(view, i)) {
			move(series, i, kept, false);
			series->live_bytes[kept] = series->live_bytes[i];
			last_kept = kept++;
			continue;
		}
		/* Keeps calls that were in progress when the pause began, and frees during the
		 * pause, in the next bucket that stays; if there is none, in the last one. */
		uint32_t next = i + 1;
		while (next < buckets && is_paused(view, next))
			next++;
		if (next < buckets) {
			move(series, i, next, true);
		} else if (last_kept != UINT32_MAX) {
			move(series, i, last_kept, true);
			series->live_bytes[last_kept] = series->live_bytes[i];
		}
	}
	return kept;
}
