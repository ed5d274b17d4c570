/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format/array.h"
#include "format/handover.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

struct ht_err *finder_init(struct finder *finder, const char *sysroot)
{
	*finder = (struct finder){.sysroot = -1, .target = -1};
	if (!sysroot[0])
		return NULL;
	finder->sysroot_path = sysroot;
	finder->sysroot = open(sysroot, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return finder->sysroot < 0 ? ht_err_sys(errno, "cannot open --sysroot %s", sysroot) : NULL;
}

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

void finder_deinit(struct finder *finder)
{
	close_one(finder->sysroot);
	close_one(finder->target);
	for (size_t i = 0; i < finder->count; i++)
		close_one(finder->module[i].fd);
	free(finder->module);
	map_deinit(&finder->by_module);
	*finder = (struct finder){.sysroot = -1, .target = -1};
}

/* --- what is handed over --- */

/* Takes ownership of `fd`. */
static struct ht_err *add_item(struct finder *finder, const struct handover_item *item, int fd)
{
	uint32_t known;
	if (item->module_id == 0) {
		close_one(finder->target);
		finder->target = fd;
		return NULL;
	}
	struct ht_err *err = NULL;
	bool is_new = !map_get(&finder->by_module, item->module_id, &known);
	if (is_new)
		err = ARRAY_RESERVE(finder->module, finder->capacity, finder->count + 1, "files");
	if (is_new && !err)
		err = map_put(&finder->by_module, item->module_id, (uint32_t)finder->count);
	if (is_new && !err)
		finder->module[finder->count++] =
			(struct finder_module){.inode = item->inode, .fd = fd};
	else
		close_one(fd);
	return err;
}

static struct ht_err *add_message(struct finder *finder, const struct handover_item *item,
	size_t count, const int *fd, size_t fd_count)
{
	struct ht_err *err = NULL;
	size_t used = 0;
	for (size_t i = 0; i < count && !err; i++)
		err = add_item(
			finder, &item[i], item[i].has_file && used < fd_count ? fd[used++] : -1);
	while (used < fd_count)
		close(fd[used++]);
	return err;
}

struct ht_err *finder_take(struct finder *finder, int socket)
{
	for (;;) {
		union {
			char bytes[CMSG_SPACE(HANDOVER_ITEMS_MAX * sizeof(int))];
			struct cmsghdr align;
		} control;
		struct handover_item item[HANDOVER_ITEMS_MAX];
		int fd[HANDOVER_ITEMS_MAX];
		size_t fd_count = 0;
		struct iovec data = {item, sizeof(item)};
		struct msghdr message = {.msg_iov = &data,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes)};
		ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (got <= 0)
			return NULL;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
			fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fd, CMSG_DATA(header), fd_count * sizeof(int));
		}
		HT_TRY(add_message(finder, item, (size_t)got / sizeof(item[0]), fd, fd_count));
	}
}

const struct finder_module *finder_module(const struct finder *finder, uint64_t id)
{
	uint32_t index;
	return map_get(&finder->by_module, id, &index) ? &finder->module[index] : NULL;
}

/* --- paths --- */

static int if_regular(int fd)
{
	struct stat status;
	if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

/* Resolves links and ".." within `root`, as for a process with that root directory. */
static int open_in_root(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(OPEN_FLAGS | flags),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	if (root < 0) {
		errno = ENOENT;
		return -1;
	}
	return if_regular((int)syscall(SYS_openat2, root, path, &how, sizeof(how)));
}

int finder_open(const struct finder *finder, enum finder_place place, const char *path)
{
	errno = ENOENT;
	if (path[0] != '/')
		return -1;
	if (place == FINDER_SYSROOT) {
		int fd = open_in_root(finder->sysroot, path, 0);
		/* openat2 is missing before Linux 5.6 or may be forbidden. A plain open is
		 * acceptable: the user named the directory. */
		if (fd < 0 && finder->sysroot >= 0 && (errno == ENOSYS || errno == EPERM))
			fd = finder_open_below(finder->sysroot_path, path);
		return fd;
	}
	if (place == FINDER_TARGET)
		return open_in_root(finder->target, path, 0);
	return if_regular(open(path, OPEN_FLAGS));
}

int finder_open_own(const struct finder *finder, const char *path)
{
	if (finder->target >= 0)
		return open_in_root(finder->target, path, O_NOFOLLOW);
	return if_regular(open(path, OPEN_FLAGS | O_NOFOLLOW));
}

int finder_open_below(const char *directory, const char *path)
{
	char whole[PATH_MAX];
	int length = snprintf(whole, sizeof(whole), "%s/%s", directory, path);
	errno = ENAMETOOLONG;
	if (length < 0 || (size_t)length >= sizeof(whole))
		return -1;
	return if_regular(open(whole, OPEN_FLAGS));
}
