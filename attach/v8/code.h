/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the function whose instructions lie at an address, or whose bytecode an interpreted frame
 * runs, through V8's own records.
 */
#pragma once

#include "attach/v8/heap.h"

struct v8_code {
	raddr_t lo, hi;		 /* its instructions */
	uint64_t code;		 /* tagged Code object */
	uint64_t function;	 /* tagged SharedFunctionInfo */
	uint64_t deoptimization; /* tagged array; 0: the code is not optimized */
};

/* Finds the code that contains `pc`, in the mapping that begins at `lo`. `closure`: the word of a
 * frame with that pc for its JSFunction, or 0; without it only optimized code names its function.
 * False: none, or the records contradict each other. */
bool v8_code_find(
	struct v8_heap *heap, raddr_t lo, raddr_t pc, uint64_t closure, struct v8_code *ret);

/* `array`: the tagged BytecodeArray of an interpreted frame, which does not name its function;
 * `closure`: the word of that frame for its JSFunction. `*ret` is its SharedFunctionInfo. False:
 * `closure` is not, or no longer, a function with this array. */
bool v8_bytecode_find(struct v8_heap *heap, uint64_t array, uint64_t closure, uint64_t *ret);
