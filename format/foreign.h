/* SPDX-License-Identifier: Apache-2.0
 *
 * Cleans strings of foreign origin (paths, names of threads and functions) for a terminal or a JSON
 * parser. They may contain any byte, including terminal escapes.
 */
#pragma once

#include "format/base.h"

/* Length in bytes of the UTF-8 character at `at`, with its code point in `*ret`; 0 if the `left`
 * bytes there (at least one) do not begin with a valid character. */
size_t foreign_decode(const char *at, size_t left, uint32_t *ret);
/* False for control characters, for characters that change the text direction, for line separators,
 * and for characters without a width. */
bool foreign_is_harmless(uint32_t point);
/* Copies `from` to `to`, which has `bytes` bytes with the terminator; cuts between characters.
 * Leaves out characters that are not harmless; replaces invalid UTF-8 by question marks. `to` may
 * be `from`. */
void foreign_copy(char *to, size_t bytes, const char *from);
