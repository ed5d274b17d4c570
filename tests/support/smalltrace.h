/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a small complete trace to a file, for programs that read traces.
 */
#pragma once

#include "format/base.h"

/* Writes the trace to file `name` in the test's directory: a window of 60 ms with 400 blocks of the
 * functions main and parse; every `kept`th block is never freed. Returns the path, malloc'd. */
char *smalltrace_make(const char *name, uint64_t kept);
