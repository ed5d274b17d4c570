/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the lines that are appended to a file from now on, even if the file is rotated or
 * truncated. A file that is missing now is read from its beginning when it appears. A call reads a
 * limited number of bytes; if more than 64 MiB are waiting, all of them are skipped and counted.
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
	bool is_skipping; /* skip to the next newline: the line is too long, or began before
			     logfile_open */
	size_t length;
	char line[LOGFILE_LINE_MAX + 1];
	uint64_t skipped_bytes; /* in all */
};

/* Begins at the end of the file, if the file exists. `path` is borrowed. */
void logfile_open(struct logfile *file, const char *path);
/* Calls `seen` for each whole line that was appended, without its newline; zero bytes become
 * blanks, and only the first LOGFILE_LINE_MAX bytes of a longer line are given. Returns whether any
 * bytes were read. Waits for the file system, but not for new lines. */
bool logfile_read(
	struct logfile *file, void (*seen)(void *context, const char *line), void *context);
void logfile_close(struct logfile *file);
