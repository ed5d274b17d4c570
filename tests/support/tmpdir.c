/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tmpdir.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

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

char *tmpdir_path(const char *name)
{
	if (owner != getpid()) {
		const char *parent = getenv("TMPDIR");
		snprintf(directory, sizeof(directory), "%s/heaptap-test.XXXXXX",
			parent ? parent : "/tmp");
		ck_assert_ptr_nonnull(mkdtemp(directory));
		owner = getpid();
		atexit(remove_directory);
	}
	char *path = NULL;
	ck_assert_int_gt(asprintf(&path, "%s/%s", directory, name), 0);
	return path;
}
