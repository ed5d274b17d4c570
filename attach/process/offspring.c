/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/offspring.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_BYTES 4096u

/* Of one thread: numbers with a blank behind each. */
static size_t take_list(int task_fd, const char *tid, pid_t *ret, size_t max)
{
	char path[64], text[LIST_BYTES];
	size_t count = 0, kept = 0;
	ssize_t got;

	snprintf(path, sizeof(path), "%.20s/children", tid);
	int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (count < max && (got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		text[kept + (size_t)got] = '\0';
		char *at = text;
		for (char *end; count < max; at = end + 1) {
			long pid = strtol(at, &end, 10);
			if (*end != ' ')
				break;
			ret[count++] = (pid_t)pid;
		}
		/* What is cut is whole with the next piece. */
		kept = strlen(at);
		memmove(text, at, kept);
	}
	close(fd);
	return count;
}

size_t offspring_list(const struct proc *proc, pid_t *ret, size_t max)
{
	size_t count = 0;
	int task_fd = openat(proc->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = task_fd < 0 ? NULL : fdopendir(task_fd);

	if (!dir && task_fd >= 0)
		close(task_fd);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			count += take_list(task_fd, entry->d_name, ret + count, max - count);
	if (dir)
		closedir(dir);
	return count;
}
