/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a function that its compiler has put elsewhere (`.cold`, `.part`) jump back into it. Who
 * jumps to its beginning calls it; anywhere behind that it is not known what its registers hold.
 *
 * Pure: bytes in, yes or no out.
 */
#pragma once

#include "attach/plan/codewalk.h"

/* Does a jump from outside the function of `bytes` bytes at `entry`, to where the function itself
 * leads, come back to one of its first `first` bytes, but for its beginning? True also where not
 * all of it can be seen (codewalk.h). Jumps through registers, tables and words are not followed.
 */
bool comeback_to(codewalk_read *read, void *context, raddr_t entry, size_t bytes, size_t first);
