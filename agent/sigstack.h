/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the thread on its signal stack? Asks the kernel: between gate_enter and gate_leave only.
 */
#pragma once

#include "format/base.h"

/* The caller's stack pointer is `sp`, on a stack that ends at `hi`; a signal stack may be an array
 * in some frame of it. */
bool sigstack_is_in_use(uint64_t sp, uint64_t hi);
