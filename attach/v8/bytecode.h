/* SPDX-License-Identifier: Apache-2.0
 *
 * Which function has a BytecodeArray: the array itself does not say.
 */
#pragma once

#include "attach/v8/heap.h"

/*
 * `array`: the BytecodeArray, tagged, of a frame that was interpreted; `closure`: what that frame
 * had for its JSFunction. False: that is not, or is not any more, a function that has this array.
 * `ret`: its SharedFunctionInfo.
 */
bool v8_bytecode_find(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret);
