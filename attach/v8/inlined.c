/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/inlined.h"

#include <stdlib.h>

#define ENTRY_WORDS	  3 /* bytecode offset, index of the translation, offset of the call's return */
#define ENTRIES_MAX	  16384u
#define TABLE_HEADER	  16u
#define TABLE_BYTES	  16384u
#define TRANSLATION_BYTES (256u << 10)
#define LITERALS_MAX	  65536u

/* Index in the deoptimization data of the first word of deopt entry `entry`. */
static uint32_t word_of(const struct v8_heap *heap, uint32_t entry)
{
	return (uint32_t)heap->layout.deoptimization_entries + entry * ENTRY_WORDS;
}

/* A small integer among an array's elements. */
static bool load_small(const struct v8_heap *heap, uint64_t array, uint64_t index, uint32_t *ret)
{
	return v8_load_smi(heap, array, heap->layout.array_elements + 8 * (int32_t)index, ret);
}

static bool load_length(const struct v8_heap *heap, uint64_t array, uint32_t most, uint32_t *ret)
{
	return v8_load_smi(heap, array, heap->layout.array_length, ret) && *ret <= most;
}

/* Finds the deopt entry of the call that returns to `offset`, in code of TurboFan. */
static bool find_by_return(const struct v8_heap *heap, const struct v8_code *code, uint32_t entries,
	uint32_t offset, uint32_t *ret)
{
	uint32_t at;
	for (*ret = 0; *ret < entries; ++*ret)
		if (load_small(heap, code->deoptimization, word_of(heap, *ret) + 2, &at) &&
			at == offset)
			return true;
	return false;
}

static uint32_t take_number(const uint8_t **at, uint32_t bytes)
{
	uint32_t number = 0;
	for (uint32_t i = 0; i < bytes; i++)
		number |= (uint32_t) * (*at)++ << 8 * i;
	return number;
}

/* Looks `offset` up in the code's table of safepoints. Returns its deopt entry, and the trampoline
 * where the code continues after a deoptimization. */
static bool find_in_table(const uint8_t *table, size_t bytes, uint32_t offset, uint32_t *ret_entry,
	uint32_t *ret_trampoline)
{
	const uint8_t *at = table + 4;
	const uint32_t count = take_number(&at, 4), form = take_number(&at, 4);
	const uint32_t register_bytes = form >> 1 & 7, pc_bytes = form >> 4 & 7,
		       entry_bytes = form >> 7 & 7;
	const size_t row_bytes = 2 * pc_bytes + entry_bytes + 1 + register_bytes;
	if (!(form & 1) || pc_bytes > 4 || entry_bytes > 4)
		return false;
	for (size_t i = 0; i < count && TABLE_HEADER + (i + 1) * row_bytes <= bytes; i++) {
		at = table + TABLE_HEADER + i * row_bytes;
		const uint32_t pc = take_number(&at, pc_bytes);
		*ret_entry = take_number(&at, entry_bytes) - 1;
		*ret_trampoline = take_number(&at, pc_bytes) - 1;
		if (pc == offset)
			return true;
	}
	return false;
}

/* Finds the deopt entry in code of Maglev: its entries contain the trampoline's offset instead of
 * the return offset, and the safepoint table leads from the return offset to the trampoline. */
static bool find_by_table(const struct v8_heap *heap, const struct v8_code *code, uint32_t entries,
	uint32_t offset, uint32_t *ret)
{
	uint8_t table[TABLE_BYTES];
	uint32_t trampoline, at;
	size_t bytes = sizeof(table);
	while (bytes > TABLE_HEADER && !v8_read(heap, code->hi, table, bytes))
		bytes /= 2;
	return bytes > TABLE_HEADER && find_in_table(table, bytes, offset, ret, &trampoline) &&
	       *ret < entries &&
	       load_small(heap, code->deoptimization, word_of(heap, *ret) + 2, &at) &&
	       at == trampoline;
}

/* Returns the index of the translation for the call that returns to `offset`. */
static bool find_translation(
	const struct v8_heap *heap, const struct v8_code *code, uint32_t offset, uint32_t *ret)
{
	uint32_t length, entry;
	if (!load_length(heap, code->deoptimization, ENTRIES_MAX * ENTRY_WORDS, &length) ||
		length < word_of(heap, 0))
		return false;
	const uint32_t entries = (length - word_of(heap, 0)) / ENTRY_WORDS;
	return (find_by_return(heap, code, entries, offset, &entry) ||
		       find_by_table(heap, code, entries, offset, &entry)) &&
	       load_small(heap, code->deoptimization, word_of(heap, entry) + 1, ret);
}

static bool read_translation(
	struct v8_heap *heap, const struct v8_code *code, uint32_t at, struct v8_translation *ret)
{
	const struct v8_layout *layout = &heap->layout;
	uint64_t array;
	uint32_t length;
	if (!v8_load_typed(heap, code->deoptimization, layout->array_elements, layout->type_bytes,
		    &array) ||
		!load_length(heap, array, TRANSLATION_BYTES, &length) || at >= length)
		return false;
	uint8_t *bytes = malloc(length);
	const bool is_read =
		bytes &&
		v8_read(heap, array - 1 + (uint64_t)layout->array_elements, bytes, length) &&
		v8_translation_read(bytes, length, at, layout->translation, ret);
	free(bytes);
	return is_read;
}

/* The array of literals holds its elements weakly, as tagged weak pointers. */
static bool load_function(struct v8_heap *heap, uint64_t literals, uint32_t index, uint64_t *ret)
{
	const struct v8_layout *layout = &heap->layout;
	if (!v8_load(heap, literals, layout->array_elements + 8 * (int32_t)index, ret))
		return false;
	*ret &= ~2ull;
	return v8_type(heap, *ret) == layout->type_function;
}

static bool find(
	struct v8_heap *heap, const struct v8_code *code, raddr_t pc, struct v8_inlined *ret)
{
	const struct v8_layout *layout = &heap->layout;
	struct v8_translation translation;
	uint64_t literals;
	uint32_t at, length;
	if (!code->deoptimization ||
		!find_translation(heap, code, (uint32_t)(pc + 1 - code->lo), &at) ||
		!read_translation(heap, code, at, &translation) ||
		!v8_load_typed(heap, code->deoptimization,
			layout->array_elements + 8 * layout->deoptimization_literals,
			layout->type_literals, &literals) ||
		!load_length(heap, literals, LITERALS_MAX, &length))
		return false;
	for (unsigned i = translation.count; i > 0; i--) {
		uint64_t *function = &ret->function[ret->count++];
		if (translation.literal[i - 1] >= length ||
			!load_function(heap, literals, translation.literal[i - 1], function))
			return false;
	}
	/* The outermost function must be that of the code itself. */
	return ret->function[--ret->count] == code->function;
}

void v8_inlined_find(
	struct v8_heap *heap, const struct v8_code *code, raddr_t pc, struct v8_inlined *ret)
{
	*ret = (struct v8_inlined){0};
	if (!find(heap, code, pc, ret))
		ret->count = 0;
}
