/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/handover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/helper/message.h"
#include "format/array.h"

#define FILES_MAX 65536u

static bool make_socket(int ret[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) == 0;
}

void handover_open(struct handover *handover, const struct proc *proc)
{
	int pair[2];
	struct rlimit limit = {0};
	*handover = (struct handover){.near = -1, .far = -1, .root = -1};
	if (!make_socket(pair))
		return;
	handover->near = pair[0];
	handover->far = pair[1];
	handover->root = openat(proc->dir_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* The other half of our descriptors is for everything else. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		handover->open_max =
			limit.rlim_cur / 2 < FILES_MAX ? limit.rlim_cur / 2 : FILES_MAX;
}

/* The mapping leads to its file even after a rename or unlink, for a user with CAP_SYS_ADMIN or
 * CAP_CHECKPOINT_RESTORE. The program's own file is open to any user who may trace the process. */
static int open_mapped(
	const struct proc *proc, const struct module *module, const struct proc_map *map)
{
	char name[64];
	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, map->lo, map->hi);
	int fd = openat(proc->dir_fd, name, O_PATH | O_CLOEXEC);
	if (fd < 0 && module->executable)
		fd = openat(proc->dir_fd, "exe", O_PATH | O_CLOEXEC);
	return fd;
}

void handover_add(struct handover *handover, const struct proc *proc, const struct module *module,
	const struct proc_map *map)
{
	if (handover->near <= 0 || !map->inode || handover->count == FILES_MAX ||
		!ARRAY_HAS_ROOM(handover->file, handover->count, handover->capacity, 64))
		return;
	int fd = handover->open_count < handover->open_max ? open_mapped(proc, module, map) : -1;
	handover->open_count += fd >= 0;
	handover->file[handover->count++] = (struct handover_file){
		.item = {.module_id = module->id, .inode = map->inode, .has_file = fd >= 0},
		.fd = fd};
}

static void let_go(struct handover *handover, struct handover_file *file)
{
	if (file->fd < 0)
		return;
	close(file->fd);
	file->fd = -1;
	file->item.has_file = 0;
	handover->open_count--;
}

/* Asks only for what the kernel has in memory, since the file system may be slow to answer. */
static bool is_deleted(int fd)
{
	struct statx status;
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &status) == 0 &&
	       status.stx_mask & STATX_NLINK && status.stx_nlink == 0;
}

void handover_gone(struct handover *handover, uint64_t module_id)
{
	for (size_t i = handover->count; i-- > 0;) {
		struct handover_file *file = &handover->file[i];
		if (file->item.module_id != module_id)
			continue;
		if (file->fd >= 0 && !is_deleted(file->fd))
			let_go(handover, file);
		return;
	}
}

/* Sends one message; items that do not fit in the socket are lost. */
static void send_items(
	int socket, const struct handover_item *item, size_t count, const int *fd, size_t fd_count)
{
	(void)!message_send(socket, item, count * sizeof(*item), fd, fd_count, MSG_DONTWAIT);
}

static void send_all(int socket, const struct handover_file *file, size_t count)
{
	struct handover_item item[HANDOVER_ITEMS_MAX];
	int fd[HANDOVER_ITEMS_MAX];
	for (size_t i = 0; i < count;) {
		size_t items = 0, fds = 0;
		for (; i < count && items < HANDOVER_ITEMS_MAX; i++) {
			item[items++] = file[i].item;
			if (file[i].item.has_file)
				fd[fds++] = file[i].fd;
		}
		send_items(socket, item, items, fd, fds);
	}
}

void handover_send(struct handover *handover)
{
	if (handover->near <= 0)
		return;
	const struct handover_file root = {.item = {.has_file = 1}, .fd = handover->root};
	if (root.fd > 0)
		send_all(handover->near, &root, 1);
	send_all(handover->near, handover->file, handover->count);
}

static void close_one(int *fd)
{
	if (*fd > STDERR_FILENO)
		close(*fd);
	*fd = -1;
}

void handover_close(struct handover *handover)
{
	for (size_t i = 0; i < handover->count; i++)
		let_go(handover, &handover->file[i]);
	free(handover->file);
	close_one(&handover->near);
	close_one(&handover->far);
	close_one(&handover->root);
	*handover = (struct handover){.near = -1, .far = -1, .root = -1};
}

/* --- in the process that looks up names --- */

/* Opens only a regular file that is the one that was mapped: to open another file may have an
 * effect, or block for ever. */
static int reopen(int path_fd, const struct handover_item *item)
{
	char name[40];
	struct stat status;
	if (item->module_id == 0)
		return fcntl(path_fd, F_DUPFD_CLOEXEC, 0);
	if (fstat(path_fd, &status) != 0 || !S_ISREG(status.st_mode) ||
		status.st_ino != item->inode)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	return open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void pass_on(
	int to, struct handover_item *item, size_t count, const int *fd, size_t fd_count)
{
	int opened[HANDOVER_ITEMS_MAX];
	size_t used = 0, opened_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (!item[i].has_file)
			continue;
		int reopened = used < fd_count ? reopen(fd[used++], &item[i]) : -1;
		item[i].has_file = reopened >= 0;
		if (reopened >= 0)
			opened[opened_count++] = reopened;
	}
	send_items(to, item, count, opened, opened_count);
	for (size_t i = 0; i < opened_count; i++)
		close(opened[i]);
}

/* False: there are no more messages. */
static bool pass_message(int from, int to)
{
	struct handover_item item[HANDOVER_ITEMS_MAX];
	int fd[HANDOVER_ITEMS_MAX];
	size_t fd_count = HANDOVER_ITEMS_MAX;
	ssize_t got = message_receive(from, item, sizeof(item), fd, &fd_count, MSG_DONTWAIT);
	if (got <= 0)
		return false;
	pass_on(to, item, (size_t)got / sizeof(item[0]), fd, fd_count);
	for (size_t i = 0; i < fd_count; i++)
		close(fd[i]);
	return true;
}

int handover_pass_on(int socket)
{
	int pair[2];
	if (socket < 0 || !make_socket(pair))
		return -1;
	while (pass_message(socket, pair[0]))
		;
	close(pair[0]);
	fcntl(pair[1], F_SETFD, 0);
	return pair[1];
}
