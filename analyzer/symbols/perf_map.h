/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code that a program made while it ran, from the map that it wrote for perf: lines
 * "START SIZE NAME" with hexadecimal numbers, later ones in force over earlier ones. The file is
 * the program's, so that anything may stand in it: what is no such line is passed over. A jitdump
 * (jitdump.h) is read as if it were such lines.
 */
#pragma once

#include <time.h>

#include "format/base.h"
#include "format/err.h"
#include "format/record.h"

#define PERF_MAP_MAX_BYTES (256u << 20)

/* Zero-initialised is empty and valid. */
struct perf_map {
	char *text;
	size_t length;
};

void perf_map_deinit(struct perf_map *map);
/* Reads the file; one that is no regular file, is too long or has not one such line is an error. */
HT_MUST_CHECK
struct ht_err *perf_map_read(struct perf_map *map, const char *path);
/* The same of a file that may have been left by another process: it must be no link, belong to this
 * user, and have been written to at `since` or later. Else, and for any other reason, the map is
 * empty. */
void perf_map_read_own(struct perf_map *map, const char *path, time_t since);
/* The same of a file that was opened without following a link; takes over `fd`, -1 for none. */
void perf_map_take_own(struct perf_map *map, int fd, const char *path, time_t since);
/* The name for each of `count` ascending addresses, in `map`; empty where there is none. */
HT_MUST_CHECK
struct ht_err *perf_map_find(
	const struct perf_map *map, const uint64_t *address, size_t count, struct rec_string *ret);
