/* SPDX-License-Identifier: Apache-2.0
 *
 * Source files: found by their path in debug information, and split into lines.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

#define SOURCE_DIRS_MAX	 16u
#define SOURCE_BYTES_MAX (64u << 20) /* largest file */

/* The places to search: below each `dir` with ever shorter ends of the path (a/b.c, then b.c),
 * below `sysroot`, then on this machine. All pointers are borrowed. */
struct source_places {
	const char *sysroot; /* "": none */
	const char *dir[SOURCE_DIRS_MAX];
	size_t dir_count;
};

/* A file in memory. Zero-initialised: no lines. */
struct source {
	char *path; /* where it was found */
	char *data; /* a NUL ends each line */
	char **line;
	size_t line_count;
	int64_t changed_ns; /* its last change, since the epoch */
};

/* Reads the file that debug information names `path`. If it is not found, `ret_why` is a sentence
 * with the reason and the remedy, and `ret` is empty. Fails only if memory is out. Opens only
 * regular files, and never blocks. */
#define SOURCE_WHY_BYTES 512u
HT_MUST_CHECK
struct ht_err *source_read(const struct source_places *places, const char *path, struct source *ret,
	char ret_why[SOURCE_WHY_BYTES]);
void source_deinit(struct source *source);
