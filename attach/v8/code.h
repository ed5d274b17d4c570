/* SPDX-License-Identifier: Apache-2.0
 *
 * Which function's instructions lie at an address: from the address to V8's own books about it.
 */
#pragma once

#include "attach/v8/heap.h"

struct v8_code {
	raddr_t lo, hi;	   /* its instructions */
	uint64_t code;	   /* the Code object */
	uint64_t function; /* SharedFunctionInfo */
};

/*
 * The code that holds `pc`, whose mapping begins at `lo`. `closure`: what a frame with that pc had
 * where it keeps its JSFunction, or 0; without it only code that was optimized names its function.
 * False: there is none, or its books do not agree with each other.
 */
bool v8_code_find(
	struct v8_heap *heap, raddr_t lo, raddr_t pc, uint64_t closure, struct v8_code *ret);
