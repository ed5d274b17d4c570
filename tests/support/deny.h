/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls of this process, and of those it forks, that fail from here on.
 */
#pragma once

#include <sys/resource.h>

#include "format/base.h"

void deny_calls(long number, int error);
/* Only those whose argument `arg` (0 to 5) has these low 32 bits. */
void deny_calls_with(long number, unsigned arg, uint32_t value, int error);
/* No descriptor more is to be had, until allow_files() gets back what this returned: a sanitizer
 * looks at its own threads when the process ends. */
rlim_t deny_files(void);
void allow_files(rlim_t usual);
