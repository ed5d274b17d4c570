/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that only pass an allocation on: operators new, allocators, and what the language's own
 * library does between them and whoever asked for memory. Decided on readable names; the table and
 * its reasons are in wrapper.c.
 */
#pragma once

#include "analyzer/symbols/table.h"

/* Whether the function of this name passes allocations on. NULL (unknown) does not. */
bool wrapper_is(const char *function);
/* How many of the frames, innermost first, do so until one does not. */
uint32_t wrapper_count(const struct symbol_frame *frame, uint32_t count);
