/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include "format/growing.h"

/* How long a write to a socket (standard output) may block: as long as store.c waits for a pipe. */
#define SOCKET_STALL_S 5

static struct ht_err *standard_refused(const char *reason)
{
	return ht_err_new(HT_ERR_USAGE, "cannot write the trace to standard output: %s", reason);
}

/* A reader that sleeps must not keep this process in a write. So a pipe is opened anew, since
 * O_NONBLOCK would otherwise hold for all processes that share the description. A socket cannot be
 * opened anew: it gets a time limit. */
static struct ht_err *open_standard(struct output *ret)
{
	struct stat st;
	int flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (fstat(STDOUT_FILENO, &st) || flags < 0 || flags & O_PATH)
		return standard_refused("it is closed");
	if (isatty(STDOUT_FILENO))
		return standard_refused("it is a terminal; redirect it or name a file with -o");
	if (S_ISFIFO(st.st_mode))
		ret->fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	else
		ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (ret->fd < 0)
		return standard_refused(errno == ENXIO ? "no process reads it" : strerror(errno));
	if (S_ISSOCK(st.st_mode)) {
		const struct timeval limit = {.tv_sec = SOCKET_STALL_S};
		(void)setsockopt(ret->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	ret->is_regular = S_ISREG(st.st_mode);
	if (ret->is_regular)
		growing_mark(ret->fd);
	ret->is_standard = true;
	return NULL;
}

/* The path is the reason, unless heaptap or the machine is out of descriptors or memory. */
static struct ht_err *cannot_create(const char *path, int sys)
{
	if (sys == EMFILE || sys == ENFILE || sys == ENOMEM)
		return ht_err_sys(sys, "cannot create %s", path);
	return ht_err_new(HT_ERR_USAGE, "cannot create %s: %s; write to another place with -o",
		path, strerror(sys));
}

static struct ht_err *cannot_use(const char *path, mode_t mode)
{
	const char *why = "is not a regular file; write to it with -o - and a redirection";
	if (S_ISREG(mode))
		why = "exists; replace it with -f or name another file with -o";
	else if (S_ISDIR(mode))
		why = "is a directory; name a file in it with -o";
	else if (S_ISLNK(mode))
		why = "is a symbolic link, which is not followed; name the file itself with -o";
	return ht_err_new(HT_ERR_USAGE, "%s %s", path, why);
}

/* Character devices that heaptap can open and write without effect. */
static bool is_harmless_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) &&
	       (st->st_rdev == makedev(1, 3) || st->st_rdev == makedev(1, 7));
}

static struct ht_err *open_device(struct output *output, const char *base)
{
	struct stat st;
	output->fd = openat(
		output->dir_fd, base, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (output->fd < 0 || fstat(output->fd, &st))
		return cannot_create(output->path, errno);
	return is_harmless_device(&st) ? NULL : cannot_use(output->path, st.st_mode);
}

static bool parse_id(const char *text, uint32_t *ret)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	if (errno || *end || value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

/* Best effort: some file systems know no owners, and root's file is better than none. */
static void give_to_sudo_user(int fd)
{
	uint32_t uid, gid;
	if (geteuid() == 0 && parse_id(getenv("SUDO_UID"), &uid) &&
		parse_id(getenv("SUDO_GID"), &gid) && fchown(fd, uid, gid))
		return;
}

static struct ht_err *create_file(struct output *output)
{
	struct stat st;
	output->fd = openat(output->dir_fd, output->name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (output->fd < 0 && errno == EEXIST &&
		!fstatat(output->dir_fd, output->name, &st, AT_SYMLINK_NOFOLLOW))
		return cannot_use(output->path, st.st_mode);
	if (output->fd < 0 || fstat(output->fd, &st))
		return cannot_create(output->path, errno);
	output->is_regular = true;
	growing_mark(output->fd);
	output->device = st.st_dev;
	output->inode = st.st_ino;
	give_to_sudo_user(output->fd);
	return NULL;
}

/* An unpredictable name beside the final one. */
static struct ht_err *name_temporary(struct output *output, const char *base)
{
	uint64_t word;
	if (getrandom(&word, sizeof(word), 0) != sizeof(word))
		return ht_err_sys(errno, "cannot draw a random file name");
	output->final_name = strdup(base);
	if (!output->final_name ||
		asprintf(&output->name, "%s.part-%016llx", base, (unsigned long long)word) < 0) {
		output->name = NULL;
		return ht_err_new(HT_ERR_NOMEM, "no memory for a file name");
	}
	return NULL;
}

static struct ht_err *name_final(struct output *output, const char *base)
{
	output->name = strdup(base);
	return output->name ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for a file name");
}

static struct ht_err *open_in_directory(struct output *output, const char *base, bool replace)
{
	struct stat st;
	bool exists = !fstatat(output->dir_fd, base, &st, AT_SYMLINK_NOFOLLOW);
	if (exists && is_harmless_device(&st))
		return open_device(output, base);
	if (exists && replace && !S_ISREG(st.st_mode))
		return cannot_use(output->path, st.st_mode);
	HT_TRY(replace ? name_temporary(output, base) : name_final(output, base));
	return create_file(output);
}

static struct ht_err *open_path(struct output *output, bool replace)
{
	const char *slash = strrchr(output->path, '/');
	const char *base = slash ? slash + 1 : output->path;
	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return *output->path ? cannot_use(output->path, S_IFDIR)
				     : ht_err_new(HT_ERR_USAGE, "the name of the output is empty");
	size_t length = (size_t)(base - output->path);
	char directory[PATH_MAX] = ".";
	if (length >= sizeof(directory))
		return cannot_create(output->path, ENAMETOOLONG);
	if (length)
		memcpy(directory, output->path, length);
	output->dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (output->dir_fd < 0)
		return cannot_create(output->path, errno);
	return open_in_directory(output, base, replace);
}

struct ht_err *output_open(const char *path, bool replace, struct output *ret)
{
	struct output output = {.fd = -1, .dir_fd = -1, .path = strdup(path)};
	struct ht_err *err;
	if (!output.path)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a file name");
	if (!strcmp(path, "-"))
		err = open_standard(&output);
	else
		err = open_path(&output, replace);
	if (err) {
		output_discard(&output);
		output_deinit(&output);
		return err;
	}
	*ret = output;
	return NULL;
}

/* Some file systems do not count the names of a file: the file's own name must be missing, too. */
static bool is_removed(const struct output *output)
{
	struct stat st;
	return output->inode && !fstat(output->fd, &st) && !st.st_nlink &&
	       fstatat(output->dir_fd, output->name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
}

struct ht_err *output_publish(struct output *output)
{
	if (!output->is_regular)
		return NULL;
	if (fsync(output->fd))
		return ht_err_sys(errno, "%s may not be durable: fsync",
			output->final_name ? output->name : output->path);
	if (is_removed(output))
		return ht_err_new(HT_ERR_SYS, "it was removed while it was written");
	if (!output->final_name)
		return NULL;
	if (renameat(output->dir_fd, output->name, output->dir_fd, output->final_name))
		return ht_err_sys(errno, "%s was not replaced, the trace is in %s beside it",
			output->path, output->name);
	free(output->name);
	output->name = output->final_name;
	output->final_name = NULL;
	return NULL;
}

void output_discard(struct output *output)
{
	struct stat st;
	if (!output->inode || fstatat(output->dir_fd, output->name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	if (st.st_dev == output->device && st.st_ino == output->inode)
		(void)unlinkat(output->dir_fd, output->name, 0);
}

void output_deinit(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	if (output->dir_fd >= 0)
		close(output->dir_fd);
	free(output->path);
	free(output->name);
	free(output->final_name);
	*output = (struct output){.fd = -1, .dir_fd = -1};
}
