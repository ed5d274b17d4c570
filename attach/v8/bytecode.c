/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/bytecode.h"

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
