/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is loaded during the capture: its thread waits, before the library's constructors
 * run, until the daemon has hooked the library's slots.
 */
#pragma once

#include "format/abi_thunk.h"

/* Called when the dynamic linker unlocks one of its locks; the real function is called later. */
void guard_load(uint64_t lock, const struct abi_thunk *self);
