/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads jitdump files, in which a runtime describes the code that it generated: version 1 of
 * Linux's tools/perf/Documentation/jitdump-specification.txt. Only names and addresses are read,
 * not code, lines and unwind tables.
 */
#pragma once

#include <stdio.h>

#include "format/bytes.h"

#define JITDUMP_MAGIC 0x4a695444u /* as a word of this machine */

/*
 * Appends to `text` a line of a perf map (perf_map.h) for each function that a record in `in` loads
 * or moves, in the order of the records; `in` is positioned after the magic number. Stops at an
 * incomplete record, which the program may be writing, or at a malformed one. HT_ERR_USAGE: another
 * version or machine, or more than `max` bytes.
 */
HT_MUST_CHECK
struct ht_err *jitdump_convert(FILE *in, const char *path, size_t max, struct bytes_out *text);
