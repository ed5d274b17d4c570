/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_part(struct cmd_file *file)
{
	if (asprintf(&file->part, "%s.part-XXXXXX", file->path) < 0)
		file->part = NULL;
	return file->part ? mkostemp(file->part, O_CLOEXEC) : -1;
}

static bool is_same(const char *path, const struct stat *there)
{
	struct stat status;
	const int failed =
		strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &status) : stat(path, &status);
	return !failed && status.st_ino == there->st_ino && status.st_dev == there->st_dev;
}

static bool is_any(const char *const traces[], const struct stat *there)
{
	for (size_t i = 0; traces[i]; i++)
		if (is_same(traces[i], there))
			return true;
	return false;
}

struct ht_err *cmd_file_open(
	const char *path, const char *const traces[], bool replaces, struct cmd_file *ret)
{
	struct stat there;
	*ret = (struct cmd_file){.path = path};
	if (strcmp(path, "-") == 0) {
		ret->file = stdout;
		return NULL;
	}
	const bool exists = lstat(path, &there) == 0;
	if (exists && is_any(traces, &there))
		return ht_err_new(
			HT_ERR_USAGE, "%s is the trace itself; name another file with -o", path);
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (replaces ? 0 : O_EXCL);
	const int fd = exists && replaces && S_ISREG(there.st_mode) ? open_part(ret)
								    : open(path, flags, 0600);
	if (fd < 0 && errno == EEXIST)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", path);
	ret->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (ret->file)
		return NULL;
	free(ret->part);
	return ht_err_sys(errno, "cannot write %s", path);
}

struct ht_err *cmd_file_close(struct cmd_file *file, struct ht_err *err)
{
	struct stat status;
	const char *written = file->part ? file->part : file->path;
	errno = 0;
	if (!err && (fflush(file->file) != 0 || ferror(file->file)))
		err = ht_err_sys(errno ? errno : EIO, "cannot write %s", file->path);
	/* A device or a pipe stays. */
	const bool is_file = file->file != stdout && fstat(fileno(file->file), &status) == 0 &&
			     S_ISREG(status.st_mode);
	if (!err && file->part && rename(file->part, file->path) < 0)
		err = ht_err_sys(errno, "cannot replace %s", file->path);
	if (err && is_file)
		unlink(written);
	if (file->file != stdout)
		fclose(file->file);
	free(file->part);
	return err;
}
