/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/cmd.h"

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
	*ret = (struct cmd_file){.path = path, .replaces = replaces};
	if (strcmp(path, "-") == 0) {
		ret->file = stdout;
		return NULL;
	}
	const bool exists = lstat(path, &there) == 0;
	if (exists && is_any(traces, &there))
		return ht_err_new(
			HT_ERR_USAGE, "%s is the trace itself; name another file with -o", path);
	if (exists && !replaces)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", path);
	const int fd = exists && !S_ISREG(there.st_mode)
			       ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
			       : open_part(ret);
	ret->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (ret->file)
		return NULL;
	free(ret->part);
	return ht_err_sys(errno, "cannot write %s", path);
}

static struct ht_err *give_name(const struct cmd_file *file)
{
	int failed = renameat2(
		AT_FDCWD, file->part, AT_FDCWD, file->path, file->replaces ? 0 : RENAME_NOREPLACE);
	/* Some file systems do not support RENAME_NOREPLACE. */
	if (failed && errno == EINVAL) {
		failed = link(file->part, file->path);
		if (!failed)
			unlink(file->part);
	}
	if (failed && errno == EEXIST)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", file->path);
	return failed ? ht_err_sys(errno, "cannot write %s", file->path) : NULL;
}

struct ht_err *cmd_file_close(struct cmd_file *file, struct ht_err *err)
{
	HT_THEN(err, cmd_flush(file->file, file->path));
	if (!err && file->part)
		err = give_name(file);
	if (err && file->part)
		unlink(file->part);
	if (file->file != stdout)
		fclose(file->file);
	free(file->part);
	return err;
}
