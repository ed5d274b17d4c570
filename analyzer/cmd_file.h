/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that -o names: there as a whole, or not at all. An existing one stays until -f replaces
 * it, and then until the new one is whole.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

struct cmd_file {
	FILE *file;
	const char *path; /* borrowed; "-": standard output */
	bool replaces;
	char *part; /* what will be renamed to `path`, when it is whole; NULL: no regular file */
};

/* Refuses a path that is one of `traces`, the traces that are read (ended by NULL). After an error
 * there is nothing to close. */
HT_MUST_CHECK
struct ht_err *cmd_file_open(
	const char *path, const char *const traces[], bool replaces, struct cmd_file *ret);
/* Ends the file with the error of its writing, or NULL, and returns the first error. */
HT_MUST_CHECK
struct ht_err *cmd_file_close(struct cmd_file *file, struct ht_err *err);
