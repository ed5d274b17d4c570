/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code that a program generated while it ran, from the map that it wrote for perf: lines
 * "START SIZE NAME" with hexadecimal numbers; later lines replace earlier ones. The file is
 * hostile: malformed lines are skipped. A jitdump (jitdump.h) is converted to such lines.
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
/* Reads the file. It is an error if the file is not regular, is too long, or has no valid line. */
HT_MUST_CHECK
struct ht_err *perf_map_read(struct perf_map *map, const char *path);
/* As perf_map_read, for a file that another process may have left: it must be no link, so the
 * caller opens it with O_NOFOLLOW; it must belong to this user, and have been written at `since` or
 * later. If not, or on any failure, the map is empty. Takes ownership of `fd`; -1: none. */
void perf_map_take_own(struct perf_map *map, int fd, const char *path, time_t since);
/* The name for each of `count` ascending addresses, in `map`; empty if no line covers the address.
 */
HT_MUST_CHECK
struct ht_err *perf_map_find(
	const struct perf_map *map, const uint64_t *address, size_t count, struct rec_string *ret);
