/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/systemlog.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool systemlog_is(const char *stream, dev_t device, ino_t inode)
{
	unsigned long long number[2];
	int length = 0;
	return stream && sscanf(stream, "%llu:%llu%n", &number[0], &number[1], &length) == 2 &&
	       !stream[length] && number[0] == device && number[1] == inode;
}

bool systemlog_is_stderr(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat stat;
	return stream && fstat(STDERR_FILENO, &stat) == 0 &&
	       systemlog_is(stream, stat.st_dev, stat.st_ino);
}
