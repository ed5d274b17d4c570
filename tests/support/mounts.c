/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/mounts.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/files.h"

static void write_id_map(const char *path, unsigned int id)
{
	FILE *file = fopen(path, "w");
	if (!file)
		return;
	fprintf(file, "0 %u 1", id);
	fclose(file);
}

bool mounts_unshare(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS))
		return false;
	if (uid) {
		files_write("/proc/self/setgroups", "deny");
		write_id_map("/proc/self/uid_map", uid);
		write_id_map("/proc/self/gid_map", gid);
	}
	return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

bool mounts_small(const char *directory, const char *options)
{
	return mounts_unshare() && !mount("small", directory, "tmpfs", 0, options);
}
