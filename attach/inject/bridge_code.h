/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes a function's code, for bridge.c and bridge_later.c.
 */
#pragma once

#include <Zydis/Zydis.h>

#include "format/base.h"

struct bridge;

struct instruction {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
};

struct function {
	ZydisDecoder decoder;
	const uint8_t *code; /* of the function; its word begins `skip` bytes before */
	size_t skip, bytes, code_bytes;
	raddr_t entry;
};

bool bridge_decode(
	const ZydisDecoder *decoder, const uint8_t *code, size_t bytes, struct instruction *ret);
/* By how much it lowers rsp, so that the stack can be walked from between it and the next; false:
 * it does anything else to rsp. */
bool bridge_read_push(const struct instruction *i, uint64_t *ret);
/* As bridge_read. */
const char *bridge_function_begin(struct function *function, const uint8_t *code, size_t code_bytes,
	raddr_t entry, size_t bytes);
/* The jump stands at `at`; `words` are what the instructions before it have pushed. NULL, or why
 * not. */
const char *bridge_read_place(
	const struct function *function, size_t at, uint64_t words, struct bridge *bridge);
