/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes a function's code, for bridge.c and bridge_later.c.
 */
#pragma once

#include "attach/inject/instruction.h"

struct bridge;

struct function {
	ZydisDecoder decoder;
	const uint8_t *code; /* of the function; its aligned word begins `skip` bytes before */
	size_t skip, bytes, code_bytes;
	raddr_t entry;
};

/* By how much the instruction lowers rsp, if the stack can still be walked behind it; false: it
 * changes rsp in any other way. */
bool bridge_read_push(const struct instruction *i, uint64_t *ret);
/* Notes in `step` that the bridge has pushed `words` words when it is at offset `from` of its code.
 * False: there are too many steps. */
bool bridge_step_add(struct bridge *bridge, size_t from, uint64_t words);
/* As bridge_read. */
const char *bridge_function_begin(struct function *function, const uint8_t *code, size_t code_bytes,
	raddr_t entry, size_t bytes);
/* Reads the place at offset `at`, where the jump is to be. `words`: how many words the instructions
 * before it have pushed. NULL: the jump can be there; else the reason. */
const char *bridge_read_place(
	const struct function *function, size_t at, uint64_t words, struct bridge *bridge);
