/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/code.h"

#include <string.h>

#define REACH_BYTES (2u << 20) /* code is rarely longer */
#define HEADER_MAX  128u       /* header of an instruction stream, before its instructions */
#define TRIES_MAX   512u       /* words that look like a pointer to a map, for one address */

/* The word at offset `at` of `bytes`. */
static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t word;
	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* Reads where the instructions of a Code object end, if they begin at `lo`. */
static bool read_bounds(struct v8_heap *heap, uint64_t code, raddr_t lo, raddr_t *ret_hi)
{
	uint64_t start, size;
	if (!v8_load(heap, code, heap->layout.code_start, &start) || start != lo ||
		!v8_load(heap, code, heap->layout.code_size, &size))
		return false;
	*ret_hi = lo + (uint32_t)size;
	return (uint32_t)size > 0 && (uint32_t)size < REACH_BYTES;
}

/* `stream`: address of an instruction stream. Its header must lead to a Code object that leads
 * back. */
static bool read_stream(struct v8_heap *heap, raddr_t stream, struct v8_code *ret)
{
	uint8_t header[HEADER_MAX];
	size_t bytes = (size_t)heap->layout.instructions;
	if (bytes > sizeof(header) || !v8_read(heap, stream, header, bytes))
		return false;
	ret->lo = stream + bytes;
	for (size_t at = 8; at + 8 <= bytes; at += 8) {
		ret->code = word_at(header, at);
		if (v8_type(heap, ret->code) == heap->layout.type_code)
			return read_bounds(heap, ret->code, ret->lo, &ret->hi);
	}
	return false;
}

/* Finds the nearest instruction stream before `pc`; if `pc` is in code, it is in that one. */
static bool find_stream(struct v8_heap *heap, raddr_t lo, raddr_t pc, raddr_t *ret)
{
	uint8_t bytes[HT_PAGE_BYTES];
	unsigned tries = 0;
	if (lo < pc - REACH_BYTES && pc > REACH_BYTES)
		lo = pc - REACH_BYTES;
	for (raddr_t page = ht_align_down(pc, HT_PAGE_BYTES);; page -= HT_PAGE_BYTES) {
		if (page < ht_align_down(lo, HT_PAGE_BYTES) ||
			!v8_read(heap, page, bytes, sizeof(bytes)))
			return false;
		for (size_t at = sizeof(bytes); at > 0;) {
			at -= 8;
			uint64_t map = word_at(bytes, at);
			if (page + at >= pc || !v8_is_object(map))
				continue;
			if (v8_map_type(heap, map) == heap->layout.type_instructions) {
				*ret = page + at;
				return true;
			}
			if (++tries == TRIES_MAX)
				return false;
		}
		if (page == 0)
			return false;
	}
}

/* Optimized code names the function that it was compiled from. */
static bool find_function(struct v8_heap *heap, struct v8_code *code)
{
	const struct v8_layout *layout = &heap->layout;
	const int32_t at = layout->array_elements + 8 * layout->deoptimization_function;
	uint64_t array, wrapper;
	uint32_t length;
	if (!v8_load_typed(heap, code->code, layout->code_deoptimization,
		    layout->type_deoptimization, &array) ||
		!v8_load_smi(heap, array, layout->array_length, &length) ||
		length <= (uint32_t)layout->deoptimization_function)
		return false;
	code->deoptimization = array;
	if (!layout->wrapper_function)
		return v8_load_typed(heap, array, at, layout->type_function, &code->function);
	return v8_load_typed(heap, array, at, layout->type_wrapper, &wrapper) &&
	       v8_load_typed(heap, wrapper, layout->wrapper_function, layout->type_function,
		       &code->function);
}

/* Is `closure` the function of this code? Code that is not optimized does not name its function,
 * but the function names its code. */
static bool is_function_of(struct v8_heap *heap, uint64_t closure, struct v8_code *code)
{
	const struct v8_layout *layout = &heap->layout;
	uint64_t data;
	code->deoptimization = 0;
	return v8_load_typed(heap, closure, layout->closure_function, layout->type_function,
		       &code->function) &&
	       v8_load(heap, code->function, layout->function_data, &data) && data == code->code;
}

bool v8_code_find(
	struct v8_heap *heap, raddr_t lo, raddr_t pc, uint64_t closure, struct v8_code *ret)
{
	raddr_t stream;
	return find_stream(heap, lo, pc, &stream) && read_stream(heap, stream, ret) &&
	       pc >= ret->lo && pc < ret->hi &&
	       (find_function(heap, ret) || is_function_of(heap, closure, ret));
}

/* --- interpreted code --- */

/* A function with baseline code keeps the array behind that code. */
static bool has_array(struct v8_heap *heap, uint64_t function, uint64_t array)
{
	const struct v8_layout *layout = &heap->layout;
	uint64_t data, behind;
	return v8_load(heap, function, layout->function_data, &data) &&
	       (data == array ||
		       (v8_type(heap, data) == layout->type_code &&
			       v8_load(heap, data, layout->code_deoptimization, &behind) &&
			       behind == array));
}

bool v8_bytecode_find(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret)
{
	const struct v8_layout *layout = &heap->layout;
	return v8_type(heap, array) == layout->type_bytecode &&
	       v8_load_typed(heap, closure, layout->closure_function, layout->type_function, ret) &&
	       has_array(heap, *ret, array);
}
