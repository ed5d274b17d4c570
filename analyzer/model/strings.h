/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned strings: equal strings are stored once and have equal pointers, until strings_deinit.
 */
#pragma once

#include "format/record.h"

/* Zero-initialised is empty and valid. */
struct strings {
	const char **slot;
	size_t capacity; /* of slot, a power of two, or 0 */
	size_t count;
	struct strings_chunk *chunk;
};

void strings_deinit(struct strings *strings);
/* The stored, terminated copy of `text`, which ends at its first NUL byte. */
HT_MUST_CHECK
struct ht_err *strings_intern(struct strings *strings, struct rec_string text, const char **ret);
