/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that V8 has inlined at a call in optimized code. The code's deoptimization data has
 * a deopt entry for each such call, with a translation (translation.h) that names the functions.
 * Layouts: V8's src/objects/deoptimization-data.h and src/codegen/maglev-safepoint-table.h.
 */
#pragma once

#include "attach/v8/code.h"
#include "attach/v8/translation.h"

struct v8_inlined {
	unsigned count;			   /* without the function of the code itself */
	uint64_t function[V8_INLINED_MAX]; /* SharedFunctionInfos, innermost first */
};

/* `pc`: the last byte of the call instruction, which is the return address minus 1. `count` is 0 if
 * nothing is inlined there, or that is unknown. */
void v8_inlined_find(
	struct v8_heap *heap, const struct v8_code *code, raddr_t pc, struct v8_inlined *ret);
