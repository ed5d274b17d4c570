/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls of this process, and of those it forks, that fail from here on.
 */
#pragma once

#include "format/base.h"

void deny_calls(long number, int error);
/* Only those whose argument `arg` (0 to 5) has these low 32 bits. */
void deny_calls_with(long number, unsigned arg, uint32_t value, int error);
