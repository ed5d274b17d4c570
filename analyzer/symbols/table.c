/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/table.h"

#include <stdlib.h>

#include "format/abi_control.h"

#define OFFSET_BITS	   47u /* bits of a user address */
#define MODULE_INTERPRETED ((1u << (64 - OFFSET_BITS)) - 1)

void symbols_deinit(struct symbols *symbols)
{
	free(symbols->symbol);
	free(symbols->frame);
	map_deinit(&symbols->by_place);
	*symbols = (struct symbols){0};
}

bool place_key(struct place place, uint64_t *ret)
{
	_Static_assert(MODULES_NONE == UINT32_MAX, "no module becomes 0");
	_Static_assert(MODULES_MAX < MODULE_INTERPRETED, "a module index fits the key");
	if (place.offset >> OFFSET_BITS)
		return false;
	uint64_t module = place.interpreted ? MODULE_INTERPRETED : place.module + 1;
	*ret = module << OFFSET_BITS | place.offset;
	return true;
}

struct ht_err *place_of_node(struct modules *modules, const struct node *node, struct place *ret)
{
	const uint64_t pc = node_lookup_pc(node);
	*ret = (struct place){.module = MODULES_NONE,
		.offset = node->pc,
		.interpreted = node->flags & ABI_NODE_INTERPRETED};
	if (ret->interpreted)
		return NULL;
	HT_TRY(modules_find(modules, pc, node->epoch, &ret->module));
	ret->offset = pc - (ret->module == MODULES_NONE ? 0 : modules->module[ret->module].bias);
	return NULL;
}

static struct ht_err *intern(struct strings *strings, struct rec_string text, const char **ret)
{
	if (text.length)
		return strings_intern(strings, text, ret);
	*ret = NULL;
	return NULL;
}

static struct ht_err *add_frame(
	struct symbols *symbols, struct strings *strings, const struct rec_frame *rec)
{
	struct symbol_frame frame = {.line = rec->line > UINT32_MAX ? 0 : (uint32_t)rec->line};
	HT_TRY(ARRAY_RESERVE(
		symbols->frame, symbols->frame_capacity, symbols->frame_count + 1, "frames"));
	HT_TRY(intern(strings, rec->function, &frame.function));
	HT_TRY(intern(strings, rec->file, &frame.file));
	symbols->frame[symbols->frame_count++] = frame;
	return NULL;
}

struct ht_err *symbols_add(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count)
{
	uint64_t key;
	uint32_t known;
	if (frame_count == 0 || symbols->count == SYMBOLS_MAX || !place_key(place, &key) ||
		map_get(&symbols->by_place, key, &known))
		return NULL;
	struct symbol symbol = {
		.first = (uint32_t)symbols->frame_count, .count = (uint32_t)frame_count};
	for (uint64_t i = 0; i < frame_count; i++)
		HT_TRY(add_frame(symbols, strings, &frame[i]));
	HT_TRY(ARRAY_RESERVE(symbols->symbol, symbols->capacity, symbols->count + 1, "symbols"));
	HT_TRY(map_put(&symbols->by_place, key, (uint32_t)symbols->count));
	symbols->symbol[symbols->count++] = symbol;
	return NULL;
}

struct ht_err *symbols_improve(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count)
{
	uint64_t key;
	uint32_t index;
	if (frame_count == 0 || !place_key(place, &key) ||
		!map_get(&symbols->by_place, key, &index))
		return symbols_add(symbols, strings, place, frame, frame_count);
	struct symbol *symbol = &symbols->symbol[index];
	if (symbols->frame[symbol->first + symbol->count - 1].file ||
		!frame[frame_count - 1].file.length)
		return NULL;
	const struct symbol better = {
		.first = (uint32_t)symbols->frame_count, .count = (uint32_t)frame_count};
	for (uint64_t i = 0; i < frame_count; i++)
		HT_TRY(add_frame(symbols, strings, &frame[i]));
	*symbol = better;
	return NULL;
}

struct ht_err *symbols_take(struct symbols *symbols, struct strings *strings,
	const struct modules *modules, const struct rec_symbol *rec)
{
	struct place place = {.module = MODULES_NONE,
		.offset = rec->offset,
		.interpreted = rec->module_id == TRACE_MODULE_SCRIPTS};
	if (rec->module_id && !place.interpreted) {
		place.module = modules_by_id(modules, rec->module_id);
		if (place.module == MODULES_NONE)
			return NULL;
	}
	return symbols_add(symbols, strings, place, rec->frame, rec->frame_count);
}

const struct symbol_frame *symbols_find(
	const struct symbols *symbols, struct place place, uint32_t *ret_count)
{
	static const struct symbol_frame interpreter = {
		.function = "Builtins_InterpreterEntryTrampoline"};
	uint64_t key;
	uint32_t index;
	*ret_count = place.interpreted;
	if (!place_key(place, &key) || !map_get(&symbols->by_place, key, &index))
		return place.interpreted ? &interpreter : NULL;
	*ret_count = symbols->symbol[index].count;
	return &symbols->frame[symbols->symbol[index].first];
}
