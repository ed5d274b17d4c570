/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/fds.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static int compare_fds(const void *a, const void *b)
{
	const int *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

/* close_range is not known to every kernel (before 5.9), and forbidden in some containers. */
static bool close_span(int from, int to)
{
	if (from > to || close_range((unsigned)from, (unsigned)to, 0) == 0)
		return true;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return false;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] != '.' && fd >= from && fd <= to && fd != dirfd(dir))
			close(fd);
	}
	closedir(dir);
	return true;
}

bool fds_close_all_but(int *kept, size_t count)
{
	int from = 0;
	qsort(kept, count, sizeof(*kept), compare_fds);
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < 0)
			continue;
		if (!close_span(from, kept[i] - 1))
			return false;
		from = kept[i] + 1;
	}
	return close_span(from, INT_MAX);
}
