/* SPDX-License-Identifier: Apache-2.0
 *
 * The output file of -o. A regular file appears under its name only when it is complete. An
 * existing file is replaced only with -f, and only by a complete new file. A device or a pipe
 * needs -f too, and is written directly.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

struct cmd_file {
	FILE *file;
	const char *path; /* borrowed; "-": standard output */
	bool replaces;
	char *part; /* temporary file that is renamed to `path` when it is complete; NULL: `path` is
		       written directly */
};

/* Opens the file. HT_ERR_USAGE: `path` exists and `replaces` is false, or it is one of `traces`,
 * the input files (ended by NULL). HT_ERR_SYS: it cannot be written. After an error, cmd_file_close
 * is not needed. */
HT_MUST_CHECK
struct ht_err *cmd_file_open(
	const char *path, const char *const traces[], bool replaces, struct cmd_file *ret);
/* Closes the file and gives it its name. `err`: the error of writing it, or NULL. Returns the first
 * error; after an error `path` has its former content, unless it is written directly. */
HT_MUST_CHECK
struct ht_err *cmd_file_close(struct cmd_file *file, struct ht_err *err);
