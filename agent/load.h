/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that loads a library during the window waits until the daemon has hooked the library's
 * GOT slots, at most abi_config.load_cycles_max: before the library's constructors run, or, with
 * some versions of glibc, at the end of dlopen.
 */
#pragma once

#include "format/abi_thunk.h"

/* Called when the dynamic linker unlocks one of its locks, before the real function. */
void guard_load(uint64_t lock, const struct abi_thunk *self);
