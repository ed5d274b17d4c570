/* SPDX-License-Identifier: Apache-2.0
 *
 * What a JavaScript function is called, and where it stands.
 */
#pragma once

#include "attach/v8/heap.h"

#define V8_NAME_BYTES 256u
#define V8_FILE_BYTES 1024u

struct v8_function {
	char name[V8_NAME_BYTES]; /* "" if it has none */
	char file[V8_FILE_BYTES]; /* as the script was loaded: a path, an URL, node:something */
	uint32_t line;		  /* of its parameters; 0: unknown */
};

/* `function`: a SharedFunctionInfo. False: it cannot be told. */
bool v8_function_read(struct v8_heap *heap, uint64_t function, struct v8_function *ret);
