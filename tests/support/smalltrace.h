/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a small complete trace to a file, for programs that read traces.
 */
#pragma once

#include "format/base.h"

/* 400 blocks of the functions main and parse over 60 ms, in the test's directory; every `kept`th
 * block is never freed. Returns its path, malloc'd. */
char *smalltrace_make(const char *name, uint64_t kept);
