/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/procstage.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/tmpdir.h"

#define NAME_BYTES 128

static char *path_of(const char *name)
{
	char below[NAME_BYTES + 8];
	snprintf(below, sizeof(below), "proc/%s", name);
	return tmpdir_path(below);
}

void procstage_folder(const char *name)
{
	char *path = path_of(name);
	ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
	free(path);
}

void procstage_file(const char *name, const char *text)
{
	char folder[NAME_BYTES];
	for (const char *slash = name; (slash = strchr(slash, '/')); slash++) {
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - name), name);
		procstage_folder(folder);
	}
	char *path = path_of(name);
	files_write(path, text);
	free(path);
}

void procstage_init(struct proc *proc)
{
	procstage_folder("");
	procstage_file("stat", "1 (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	char *path = path_of("");
	close(proc->dir_fd);
	proc->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(proc->dir_fd, 0);
	free(path);
}
