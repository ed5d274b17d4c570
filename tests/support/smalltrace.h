/* SPDX-License-Identifier: Apache-2.0
 *
 * A small whole trace as a file, for programs that read one.
 */
#pragma once

#include "format/base.h"

/* 400 blocks of the functions main and parse over 60 ms, in the test's directory; every `kept`th
 * stays. Returns its path, malloc'd. */
char *smalltrace_make(const char *name, uint64_t kept);
