/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that loads a library during the window waits, before the library's constructors run,
 * until the daemon has hooked the library's GOT slots.
 */
#pragma once

#include "format/abi_thunk.h"

/* Called when the dynamic linker unlocks one of its locks, before the real function. */
void guard_load(uint64_t lock, const struct abi_thunk *self);
