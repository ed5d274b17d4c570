/* SPDX-License-Identifier: Apache-2.0
 *
 * What the functions that have hooks are called.
 */
#pragma once

#include "format/abi_hooks.h"

/* The name of a hooked function, as symbol tables have it. */
const char *hook_name(enum abi_hook hook);
