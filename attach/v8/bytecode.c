/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/bytecode.h"

/* A page of V8's heap: objects that were made one after the other are mostly in the same. */
#define CHUNK_BYTES (256u << 10)
#define PART_BYTES  (16u << 10)
#define TRIES_MAX   16u /* words that are the array, in a page */

/* A function that has got baseline code keeps the array behind it. */
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

/* Closures are young when they run first, and young objects move often. */
static bool find_by_closure(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret)
{
	const struct v8_layout *layout = &heap->layout;
	return v8_load_typed(heap, closure, layout->closure_function, layout->type_function, ret) &&
	       has_array(heap, *ret, array);
}

/* Whether one of the words of a part of the page belongs to a function. */
static bool find_in_part(
	struct v8_heap *heap, uint64_t array, raddr_t at, unsigned *tries, uint64_t *ret)
{
	uint64_t word[PART_BYTES / sizeof(uint64_t)];
	if (!v8_read(heap, at, word, sizeof(word)))
		return false;
	for (size_t i = 0; i < HT_ARRAY_SIZE(word) && *tries < TRIES_MAX; i++) {
		if (word[i] != array)
			continue;
		++*tries;
		*ret = at + i * sizeof(*word) - (raddr_t)heap->layout.function_data + 1;
		if (v8_type(heap, *ret) == heap->layout.type_function)
			return true;
	}
	return false;
}

/* Neither moves as often as a closure does. */
static bool find_near(struct v8_heap *heap, uint64_t array, uint64_t *ret)
{
	const raddr_t lo = ht_align_down(array, CHUNK_BYTES);
	unsigned tries = 0;
	for (raddr_t at = lo; at < lo + CHUNK_BYTES && tries < TRIES_MAX; at += PART_BYTES)
		if (find_in_part(heap, array, at, &tries, ret))
			return true;
	return false;
}

bool v8_bytecode_find(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret)
{
	return v8_type(heap, array) == heap->layout.type_bytecode &&
	       (find_by_closure(heap, array, closure, ret) || find_near(heap, array, ret));
}
