/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of foreign origin (paths, names of threads and functions), before a person or a JSON
 * parser sees them. They may hold any byte, and what a terminal would obey.
 */
#pragma once

#include "format/base.h"

/* Length of the UTF-8 character at `at` and its code point; 0 when there is none. */
size_t foreign_decode(const char *at, size_t left, uint32_t *ret);
/* Neither a control character nor one that changes the direction of what follows. */
bool foreign_is_harmless(uint32_t point);
/* Copies what fits into `bytes`, cut between characters: what is not harmless is left out, bytes
 * that are no UTF-8 become question marks. `to` may be `from`. */
void foreign_copy(char *to, size_t bytes, const char *from);
