/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tmpdir.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX	   "heaptap-test."
#define LEFT_AGE_S 3600 /* a directory that was just made may not be locked yet */

static char directory[4096];
static pid_t owner;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_directory(void)
{
	if (getpid() == owner)
		nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_if_left(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && time(NULL) - st.st_mtime > LEFT_AGE_S &&
		!flock(fd, LOCK_EX | LOCK_NB))
		nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	close(fd);
}

void tmpdir_remove_left(const char *parent)
{
	char path[4096 + 256];
	DIR *dir = opendir(parent);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
		remove_if_left(path);
	}
	if (dir)
		closedir(dir);
}

/* The descriptor stays open: children inherit the lock, which lasts until the last of them ends or
 * execs. */
static void make_directory(void)
{
	const char *parent = getenv("TMPDIR");
	parent = parent ? parent : "/tmp";
	tmpdir_remove_left(parent);
	snprintf(directory, sizeof(directory), "%s/" PREFIX "XXXXXX", parent);
	ck_assert_ptr_nonnull(mkdtemp(directory));
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
	owner = getpid();
	atexit(remove_directory);
}

char *tmpdir_path(const char *name)
{
	if (owner != getpid())
		make_directory();
	char *path = NULL;
	ck_assert_int_gt(asprintf(&path, "%s/%s", directory, name), 0);
	return path;
}
