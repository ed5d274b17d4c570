/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/runstate.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char runstate_read(int stat)
{
	char text[512];
	ssize_t length = pread(stat, text, sizeof(text) - 1, 0);
	text[length > 0 ? length : 0] = '\0';
	const char *name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && name_end[2] ? name_end[2] : '?';
}

char runstate_of(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int stat = open(path, O_RDONLY | O_CLOEXEC);
	char state = stat >= 0 ? runstate_read(stat) : '?';
	if (stat >= 0)
		close(stat);
	return state;
}
