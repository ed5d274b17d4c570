/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/alike.h"

#include <stdlib.h>

/* What makes a frame is numbered: equal things have one number, and no others have it. */
struct numbers {
	struct analysis *analysis;
	struct map by_text, by_pair, by_place, node_by_pair;
	uint32_t next;
};

static struct ht_err *number_of(
	struct numbers *numbers, struct map *map, uint64_t key, uint32_t *ret)
{
	if (map_get(map, key, ret))
		return NULL;
	*ret = numbers->next++;
	return map_put(map, key, *ret);
}

static uint64_t pair(uint32_t upper, uint32_t lower)
{
	return (uint64_t)upper << 32 | lower;
}

/* Strings of one analysis are kept once: their addresses tell them apart. */
static struct ht_err *number_frame(
	struct numbers *numbers, const struct symbol_frame *frame, uint32_t *ret)
{
	uint32_t function, file, both;
	struct ht_err *err = number_of(
		numbers, &numbers->by_text, (uint64_t)(uintptr_t)frame->function, &function);
	if (!err)
		err = number_of(
			numbers, &numbers->by_text, (uint64_t)(uintptr_t)frame->file, &file);
	if (!err)
		err = number_of(numbers, &numbers->by_pair, pair(function, file), &both);
	return err ? err : number_of(numbers, &numbers->by_pair, pair(both, frame->line), ret);
}

/* The frame of a place in made code; NULL for any other. */
static const struct symbol_frame *made_frame(const struct symbols *symbols, struct place place)
{
	uint32_t count = 0;
	const struct symbol_frame *frame =
		place.module == MODULES_NONE ? symbols_find(symbols, place, &count) : NULL;
	return count == 1 && frame->function ? frame : NULL;
}

static struct ht_err *number_node(struct numbers *numbers, const struct node *node, uint32_t *ret)
{
	struct place place;
	uint64_t key;
	struct ht_err *err = place_of_node(&numbers->analysis->model.modules, node, &place);
	if (err)
		return err;
	const struct symbol_frame *frame = made_frame(&numbers->analysis->symbols, place);
	if (frame)
		return number_frame(numbers, frame, ret);
	if (place_key(place, &key))
		return number_of(numbers, &numbers->by_place, key, ret);
	*ret = numbers->next++;
	return NULL;
}

/* Parents stand before their children, so that a parent's first is known. */
static struct ht_err *find_first(struct alike *alike, struct numbers *numbers, uint32_t id)
{
	const struct nodes *nodes = &numbers->analysis->model.nodes;
	const struct node *node = nodes_get(nodes, id);
	uint32_t number;
	const uint32_t index = nodes_index(nodes, id);
	alike->first[index] = id;
	if (!node)
		return NULL;
	struct ht_err *err = number_node(numbers, node, &number);
	if (err)
		return err;
	uint64_t key = pair(alike->first[nodes_index(nodes, node->parent)], number);
	if (map_get(&numbers->node_by_pair, key, &alike->first[index]))
		return NULL;
	return map_put(&numbers->node_by_pair, key, id);
}

struct ht_err *alike_init(struct alike *alike, struct analysis *analysis)
{
	struct numbers numbers = {.analysis = analysis};
	const struct nodes *nodes = &analysis->model.nodes;
	uint32_t count = nodes_total(nodes);
	struct ht_err *err = NULL;

	*alike = (struct alike){0};
	if (!analysis->symbols.made_count && !nodes->generation)
		return NULL;
	alike->first = calloc((size_t)count + 1, sizeof(*alike->first));
	if (!alike->first)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %u stack nodes", count);
	alike->count = count;
	alike->nodes = nodes;
	for (uint32_t i = 1; i < count && !err; i++)
		err = find_first(alike, &numbers, nodes_id(nodes, i));
	map_deinit(&numbers.by_text);
	map_deinit(&numbers.by_pair);
	map_deinit(&numbers.by_place);
	map_deinit(&numbers.node_by_pair);
	if (err)
		alike_deinit(alike);
	return err;
}

void alike_deinit(struct alike *alike)
{
	free(alike->first);
	*alike = (struct alike){0};
}
