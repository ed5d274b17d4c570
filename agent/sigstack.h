/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the kernel whether the thread runs on its signal stack. Call it only between gate_enter and
 * gate_leave.
 */
#pragma once

#include "format/base.h"

/* `sp`: the caller's stack pointer, on a stack that ends at `hi`. A signal stack may be an array in
 * a frame of that stack. */
bool sigstack_is_in_use(uint64_t sp, uint64_t hi);
