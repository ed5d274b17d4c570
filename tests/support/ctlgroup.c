/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ctlgroup.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/run.h"

#define EMPTY_MS 120000

bool ctlgroup_set(const struct ctlgroup *group, const char *file, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", group->path, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return written;
}

bool ctlgroup_make(struct ctlgroup *group, const struct ctlgroup_kind kinds[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ctlgroup_kind *kind = &kinds[i];
		group->kind = i;
		snprintf(group->path, sizeof(group->path), "%s/heaptap-test-%d", kind->root,
			getpid());
		if (mkdir(group->path, 0755) != 0)
			continue;
		if (ctlgroup_set(group, kind->file, kind->text))
			return true;
		rmdir(group->path);
	}
	printf("skipped: no control group with %s can be made here\n", kinds->file);
	return false;
}

void ctlgroup_move(const struct ctlgroup *group, pid_t pid)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", pid);
	ck_assert(ctlgroup_set(group, "cgroup.procs", text));
}

void ctlgroup_remove(const struct ctlgroup *group)
{
	run_until(rmdir(group->path) == 0, EMPTY_MS);
}
