/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a function that its compiler has placed elsewhere (`.cold`, `.part`) jump back into the
 * function. A jump to the function's beginning is a call of it. For a jump to any later place it is
 * unknown what the registers hold.
 *
 * Pure: bytes in, yes or no out.
 */
#pragma once

#include "attach/plan/codewalk.h"

/*
 * Does code outside the function of `bytes` bytes at `entry`, to which the function itself jumps,
 * jump back to one of the function's first `first` bytes, other than its beginning? Also true if
 * not all of that code can be followed (codewalk.h). Jumps through registers, tables and words are
 * not followed.
 */
bool comeback_to(codewalk_read *read, void *context, raddr_t entry, size_t bytes, size_t first);
