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
/* Whether it only passes a call on, or starts a thread or the program: std::invoke, start_thread,
 * main's callers, the entry of Rust's threads. NULL does not. */
bool wrapper_is_plumbing(const char *function);
/* A function's name without the return type that templates show before it. */
const char *wrapper_name(const char *function);
/* How many of the frames, innermost first, do so until one does not. */
uint32_t wrapper_count(const struct symbol_frame *frame, uint32_t count);
