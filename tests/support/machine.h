/* SPDX-License-Identifier: Apache-2.0
 *
 * Features that a machine may lack: tests check for them first.
 */
#pragma once

#include <stdbool.h>

/* Does the kernel run 32-bit programs? If not, prints that test `name` is skipped. */
bool machine_runs_32_bits(const char *name);
