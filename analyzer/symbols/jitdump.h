/* SPDX-License-Identifier: Apache-2.0
 *
 * What a runtime says in a jitdump file of the code that it made: version 1 of
 * tools/perf/Documentation/jitdump-specification.txt of Linux. Only names and addresses are taken;
 * the code itself, lines and unwind tables are passed over.
 */
#pragma once

#include <stdio.h>

#include "format/bytes.h"

#define JITDUMP_MAGIC 0x4a695444u /* as a word of this machine */

/*
 * Appends to `text` a line of a perf map (perf_map.h) for each function that is loaded or moved in
 * `in`, which stands behind the magic number, in their order. A record that is not whole, as the
 * program may be writing, or makes no sense ends it. HT_ERR_USAGE: another version or machine, or
 * more than `max` bytes.
 */
HT_MUST_CHECK
struct ht_err *jitdump_convert(FILE *in, const char *path, size_t max, struct bytes_out *text);
