/* SPDX-License-Identifier: Apache-2.0
 *
 * The traces of a server: files that stay open, so that they can be read after root rights are
 * dropped.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

#define SERVE_TRACES_MAX 64u

struct serve_traces {
	char *path[SERVE_TRACES_MAX];
	int fd[SERVE_TRACES_MAX];
	uint64_t identity[SERVE_TRACES_MAX]; /* identifies the file and its content */
	bool is_found[SERVE_TRACES_MAX];     /* found in a directory, not named by an operand */
	size_t count;
	uint64_t read; /* bytes read of the first trace, which grows */
};

/* Opens and adds one file. HT_ERR_FORMAT: it is no regular file. Call serve_traces_deinit also
 * after an error. */
HT_MUST_CHECK
struct ht_err *serve_traces_add(struct serve_traces *traces, const char *path);
/* Opens the traces that the operands name: files, and in directories the files whose names end with
 * .htap, in the order of versionsort(3). HT_ERR_USAGE: a directory without such files, or more than
 * SERVE_TRACES_MAX. Call serve_traces_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *serve_traces_open(
	struct serve_traces *traces, const char *const *operand, size_t count);
/* Closes one trace; later ones move up. */
void serve_traces_remove(struct serve_traces *traces, size_t index);
void serve_traces_deinit(struct serve_traces *traces);
