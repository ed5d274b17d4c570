/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/frames.h"

#include <stdlib.h>

#include "format/array.h"

void frames_deinit(struct frames *frames)
{
	free(frames->frame);
	free(frames->place);
	free(frames->place_of);
	map_deinit(&frames->by_place);
	*frames = (struct frames){0};
}

struct frames_place frames_of(const struct frames *frames, uint32_t index)
{
	if (index >= frames->node_count || frames->place_of[index] == UINT32_MAX)
		return (struct frames_place){0, 0};
	return frames->place[frames->place_of[index]];
}

static struct ht_err *add_frames(
	struct frames *frames, const struct symbols *symbols, struct place place)
{
	static const struct symbol_frame unknown;
	uint32_t count;
	const struct symbol_frame *known = symbols_find(symbols, place, &count);
	if (count == 0) {
		known = &unknown;
		count = 1;
	}
	HT_TRY(array_reserve(&frames->frame, &frames->capacity, frames->count + count,
		sizeof(*frames->frame), "frames"));
	HT_TRY(array_reserve(&frames->place, &frames->place_capacity, frames->place_count + 1,
		sizeof(*frames->place), "frames"));
	frames->place[frames->place_count++] =
		(struct frames_place){(uint32_t)frames->count, count};
	for (uint32_t i = 0; i < count; i++)
		frames->frame[frames->count++] = (struct frame){
			.function = known[i].function,
			.file = known[i].file,
			.line = known[i].line,
			.module = place.module,
			.offset = place.offset,
			.interpreted = place.interpreted,
			.inlined = i + 1 < count,
			.line_is_first = symbols_line_is_first(place, &known[i]),
		};
	return NULL;
}

static struct ht_err *take_node(
	struct frames *frames, struct analysis *analysis, uint32_t index, const struct node *node)
{
	struct place place;
	uint64_t key;
	HT_TRY(place_of_node(&analysis->model.modules, node, &place));
	const bool has_key = place_key(place, &key);
	if (has_key && map_get(&frames->by_place, key, &frames->place_of[index]))
		return NULL;
	HT_TRY(add_frames(frames, &analysis->symbols, place));
	frames->place_of[index] = (uint32_t)frames->place_count - 1;
	return has_key ? map_put(&frames->by_place, key, frames->place_of[index]) : NULL;
}

struct ht_err *frames_init(struct frames *frames, struct analysis *analysis)
{
	const struct nodes *nodes = &analysis->model.nodes;
	struct ht_err *err = NULL;
	*frames = (struct frames){.node_count = nodes_total(nodes)};
	frames->place_of = calloc((size_t)frames->node_count + 1, sizeof(*frames->place_of));
	if (!frames->place_of)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for %u stack nodes", frames->node_count);
	for (uint32_t i = 0; i < frames->node_count && !err; i++) {
		const struct node *node = nodes_get(nodes, nodes_id(nodes, i));
		frames->place_of[i] = UINT32_MAX;
		if (node)
			err = take_node(frames, analysis, i, node);
	}
	if (err)
		frames_deinit(frames);
	return err;
}
