/* SPDX-License-Identifier: Apache-2.0
 *
 * Name and position of a JavaScript function.
 */
#pragma once

#include "attach/v8/heap.h"

#define V8_NAME_BYTES 256u
#define V8_FILE_BYTES 1024u

struct v8_function {
	char name[V8_NAME_BYTES]; /* "" if it has none */
	char file[V8_FILE_BYTES]; /* as the script was loaded: a path, a URL, node:something */
	uint32_t line;		  /* of its parameters; 0: unknown */
};

/* Reads `function`, a SharedFunctionInfo. False: unreadable or contradictory. */
bool v8_function_read(struct v8_heap *heap, uint64_t function, struct v8_function *ret);
