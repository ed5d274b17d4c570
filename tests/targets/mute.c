/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for heaptap-analyze: prints nothing, and ends when the file "go" lies beside it.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("go"));
	if (length <= 0)
		return 1;
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, "go");
	while (access(path, F_OK) != 0)
		nanosleep(&pause, NULL);
	return 0;
}
