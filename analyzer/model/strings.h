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

/* The part of a path after its last slash; the whole path if that part is empty. NULL: NULL. */
const char *strings_base_name(const char *path);
#define STRINGS_HASH 0xcbf29ce484222325ull
/* Continues a hash that began with STRINGS_HASH: FNV-1a, 64 bit (Fowler, Noll, Vo). */
uint64_t strings_hash(uint64_t hash, const void *bytes, size_t length);
