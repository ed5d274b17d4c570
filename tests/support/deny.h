/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes system calls of this process and its later children fail; only deny_files can be undone.
 */
#pragma once

#include <sys/resource.h>

#include "format/base.h"

void deny_calls(long number, int error);
/* Like deny_calls, but only calls whose argument `arg` (0 to 5) has `value` as its low 32 bits
 * fail. */
void deny_calls_with(long number, unsigned arg, uint32_t value, int error);
/* Makes every new descriptor fail. Returns the old limit: pass it to allow_files() before the
 * process ends, because a sanitizer needs descriptors then. */
rlim_t deny_files(void);
void allow_files(rlim_t usual);
