/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the function of a BytecodeArray, which the array itself does not name.
 */
#pragma once

#include "attach/v8/heap.h"

/* `array`: the tagged BytecodeArray of an interpreted frame; `closure`: the word of that frame for
 * its JSFunction. `*ret` is its SharedFunctionInfo. False: `closure` is not, or no longer, a
 * function with this array. */
bool v8_bytecode_find(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret);
