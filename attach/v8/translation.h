/* SPDX-License-Identifier: Apache-2.0
 *
 * Translations of V8's deoptimizer: which frames of unoptimized code a place in optimized code
 * stands for. Only the functions are read. A pure function of bytes, which come from the target.
 *
 * The bytes are a list of opcodes (a byte each) with operands (LEB128; the low bit of a signed one
 * is its sign). A translation begins with the distance in bytes back to the translation whose
 * opcodes it may repeat, and with numbers of its frames; the frames follow, outermost first.
 * Numbers and operands of the opcodes: V8's src/deoptimizer/translation-opcode.h.
 */
#pragma once

#include <stddef.h>

#include "format/base.h"

#define V8_INLINED_MAX 16u /* functions at one place */

enum v8_translation_form {
	V8_TRANSLATION_NONE,
	V8_TRANSLATION_11_3,
	V8_TRANSLATION_12_4,
	V8_TRANSLATION_13_6,
	V8_TRANSLATION_FORMS
};

struct v8_translation {
	unsigned count;
	uint32_t literal[V8_INLINED_MAX]; /* index of each function among the code's literals,
					     outermost first */
};

/* Reads the translation at `at`. False: malformed, or it has more functions than fit. */
bool v8_translation_read(const uint8_t *bytes, size_t length, size_t at,
	enum v8_translation_form form, struct v8_translation *ret);
