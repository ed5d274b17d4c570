/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that are appended to a file from now on, through rotation and truncation. A file that
 * is missing is waited for, and read from its begin. Reads within a bound each time; what comes
 * faster is skipped and counted.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

#define LOGFILE_LINE_MAX 4096u /* the rest of a longer line is left out */

struct logfile {
	const char *path; /* borrowed */
	int fd;
	dev_t device;
	ino_t inode;
	uint64_t position;
	bool is_skipping; /* until the next newline: the line is too long, or began before */
	size_t length;
	char line[LOGFILE_LINE_MAX + 1];
	uint64_t skipped_bytes; /* so far */
};

/* Begins at the end of the file, if there is one. */
void logfile_open(struct logfile *file, const char *path);
/* Calls `seen` for each whole line that has come, without its newline; zero bytes are blanks.
 * Returns whether anything was read. Waits only for the file system. */
bool logfile_read(
	struct logfile *file, void (*seen)(void *context, const char *line), void *context);
void logfile_close(struct logfile *file);
