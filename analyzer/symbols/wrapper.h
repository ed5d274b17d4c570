/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that only pass an allocation on: operators new, allocators, and functions of the
 * language's library between them and the code that needs the memory. Readable names decide;
 * wrapper.c has the table and its reasons.
 */
#pragma once

#include "analyzer/symbols/table.h"

/* Whether the function of this name passes allocations on. NULL (unknown) does not. */
bool wrapper_is(const char *function);
/* Whether the function only passes a call on, or starts a thread or the program: std::invoke,
 * start_thread, main's callers, the entry of Rust's threads. NULL does not. */
bool wrapper_is_plumbing(const char *function);
/* A function's name without the return type that templates show before it. */
const char *wrapper_name(const char *function);
