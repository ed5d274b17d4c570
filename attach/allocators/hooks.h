/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of hooked functions.
 */
#pragma once

#include "format/abi_hooks.h"

/* The name of a hooked function as symbol tables have it. */
const char *hook_name(enum abi_hook hook);
