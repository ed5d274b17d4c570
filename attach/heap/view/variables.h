/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a module has its variables.
 */
#pragma once

#include "attach/elf/module.h"

/* From the first segment that its program can write to, to the last; false: there is none, or they
 * are further apart than any program's. */
bool variables_span(const struct module *module, raddr_t *ret_lo, raddr_t *ret_hi);
