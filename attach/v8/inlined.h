/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that V8 inlined where optimized code makes a call. The code's deoptimization data
 * has an entry for each such call, with a translation (translation.h) that names them. Layouts:
 * V8's src/objects/deoptimization-data.h and src/codegen/maglev-safepoint-table.h.
 */
#pragma once

#include "attach/v8/code.h"
#include "attach/v8/translation.h"

struct v8_inlined {
	unsigned count;			   /* without the function of the code itself */
	uint64_t function[V8_INLINED_MAX]; /* SharedFunctionInfos, innermost first */
};

/* `pc`: within the call's instruction. `count` is 0 where nothing is inlined, or that is unknown.
 */
void v8_inlined_find(
	struct v8_heap *heap, const struct v8_code *code, raddr_t pc, struct v8_inlined *ret);
