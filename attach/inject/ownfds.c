/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/ownfds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/stub/stub_layout.h"
#include "attach/memory/ours.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/descriptor.h"

#define SOCKET_NAME "socket:["

static bool is_socket(const char *link, uint64_t inode)
{
	char ours[48];
	snprintf(ours, sizeof(ours), SOCKET_NAME "%lu]", (unsigned long)inode);
	return inode && strcmp(link, ours) == 0;
}

static bool is_memfd(const char *link, uint32_t daemon_pid)
{
	char ours[48];
	snprintf(ours, sizeof(ours), OURS_NAME "%u (deleted)", daemon_pid);
	return strcmp(link, ours) == 0;
}

/* Opens the descriptors of the process or of one thread. */
static struct ht_err *open_fds(const struct proc *proc, pid_t tid, DIR **ret)
{
	char path[PROC_PATH_BYTES];
	snprintf(path, sizeof(path), "task/%d/fd", tid);
	if (!tid)
		HT_TRY(proc_file_path(proc, "fd", path));
	int fd = openat(proc->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret = fd < 0 ? NULL : fdopendir(fd);
	if (*ret)
		return NULL;
	fd_close(&fd);
	return proc_file_failed(proc, path, errno);
}

/* Reads what a descriptor leads to; "" if it is not open, or leads to a path that is too long. */
static struct ht_err *read_link(const struct proc *proc, DIR *dir, const char *name, char ret[128])
{
	ssize_t length = readlinkat(dirfd(dir), name, ret, 127);
	ret[length < 0 ? 0 : length] = '\0';
	return length < 0 && errno != ENOENT && errno != ENAMETOOLONG
		       ? proc_file_failed(proc, name, errno)
		       : NULL;
}

static bool is_ours(const char *link, const struct journal_header *header)
{
	return is_socket(link, header->agent_fd_inode) ||
	       is_socket(link, header->daemon_fd_inode) || is_memfd(link, header->daemon_pid);
}

struct visit {
	ownfds_visitor *visit;
	void *context;
};

static struct ht_err *visit_each(
	const struct proc *proc, pid_t tid, DIR *dir, const struct visit *visit)
{
	struct ht_err *err = NULL;

	for (const struct dirent *entry; errno = 0, (entry = readdir(dir));) {
		char link[128];
		if (entry->d_name[0] == '.')
			continue;
		struct ht_err *failed = read_link(proc, dir, entry->d_name, link);
		if (!failed && link[0])
			failed = visit->visit(
				visit->context, tid, (int)strtol(entry->d_name, NULL, 10), link);
		err = ht_err_first(err, failed);
	}
	return errno ? ht_err_first(err, proc_file_failed(proc, "fd", errno)) : err;
}

static struct ht_err *visit_table(const struct proc *proc, pid_t tid, const struct visit *visit)
{
	DIR *dir;
	HT_TRY(open_fds(proc, tid, &dir));
	struct ht_err *err = visit_each(proc, tid, dir, visit);
	closedir(dir);
	return err;
}

/* A thread that has ended has no descriptors: no error. */
static struct ht_err *visit_thread(const struct proc *proc, pid_t tid, const struct visit *visit)
{
	bool there = true;
	struct ht_err *err = visit_table(proc, tid, visit);
	if (!err || ht_err_drop(proc_has_thread(proc, tid, &there)) || there)
		return err;
	ht_err_free(err);
	return NULL;
}

struct ht_err *ownfds_visit(const struct proc *proc, ownfds_visitor *visitor, void *context)
{
	const struct visit visit = {visitor, context};
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tables = {0};
	struct ht_err *err = visit_table(proc, 0, &visit);
	struct ht_err *unlisted = descriptor_tables(proc, &tables);
	if (unlisted)
		return ht_err_first(err, unlisted);
	for (size_t i = 0; i < tables.count; i++)
		err = ht_err_first(err, visit_thread(proc, tables.tid[i], &visit));
	return err;
}

struct finds {
	const struct journal_header *header;
	int *fd;
	size_t *count;
};

static struct ht_err *find_one(void *context, pid_t tid, int fd, const char *link)
{
	const struct finds *finds = context;

	(void)tid;
	if (is_ours(link, finds->header) && *finds->count < STUB_UNMAP_FDS)
		finds->fd[(*finds->count)++] = fd;
	return NULL;
}

/* The program may have closed the agent's descriptor, which it does not know, and reused the
 * number: check what it leads to. */
static struct ht_err *find_agents(const struct proc *proc, const struct journal_header *header,
	DIR *dir, int ret[STUB_UNMAP_FDS], size_t *ret_count)
{
	char name[16], link[128];
	snprintf(name, sizeof(name), "%d", header->agent_fd);
	struct ht_err *err = read_link(proc, dir, name, link);
	ret[0] = header->agent_fd;
	*ret_count = !err && is_socket(link, header->agent_fd_inode);
	return err;
}

struct ht_err *ownfds_find(const struct proc *proc, const struct journal_header *header,
	bool forked, int ret[STUB_UNMAP_FDS], size_t *ret_count)
{
	DIR *dir;
	*ret_count = 0;
	if (!forked && header->agent_fd < 0)
		return NULL;
	HT_TRY(open_fds(proc, 0, &dir));
	struct finds finds = {.header = header, .fd = ret, .count = ret_count};
	struct ht_err *err = forked ? visit_each(proc, 0, dir, &(struct visit){find_one, &finds})
				    : find_agents(proc, header, dir, ret, ret_count);
	closedir(dir);
	return err;
}

struct ht_err *ownfds_find_of(const struct proc *proc, pid_t tid,
	const struct journal_header *header, int ret[STUB_UNMAP_FDS], size_t *ret_count)
{
	struct finds finds = {.header = header, .fd = ret, .count = ret_count};

	*ret_count = 0;
	return visit_thread(proc, tid, &(struct visit){find_one, &finds});
}

/* `ret`: false if the descriptor leads to something else. */
static struct ht_err *mark(int own, const struct journal_header *header, bool *ret)
{
	char name[32], link[128] = "";

	snprintf(name, sizeof(name), "/proc/self/fd/%d", own);
	ssize_t length = readlink(name, link, sizeof(link) - 1);
	if (length < 0 && errno != ENAMETOOLONG)
		return ht_err_sys(errno, "cannot read %s", name);
	bool ours = length > 0 && is_ours(link, header);
	*ret = ours && fcntl(own, F_SETSIG, STUB_MARK) == 0;
	return !ours || *ret ? NULL : ht_err_sys(errno, "cannot mark a descriptor");
}

struct ht_err *ownfds_mark(const struct proc *proc, pid_t tid, bool own_table,
	const struct journal_header *header, int fd[STUB_UNMAP_FDS], size_t *count)
{
	struct ht_err *err = NULL;
	size_t kept = 0;

	for (size_t i = 0; !err && i < *count; i++) {
		bool marked = false;
		FD_GUARD int own = own_table ? descriptor_take_of(proc, tid, fd[i])
					     : descriptor_take(proc, tid, fd[i]);
		if (own >= 0)
			err = mark(own, header, &marked);
		else if (errno != EBADF)
			err = ht_err_sys(
				errno, "cannot take descriptor %d of process %d", fd[i], proc->pid);
		if (!err && marked)
			fd[kept++] = fd[i];
	}
	*count = kept;
	return err;
}

/* Does the other end of this socket have a name that heaptap gave it (bring_in)? */
static bool is_named(int fd)
{
	static const char name[] = "\0heaptap-agent-";
	struct sockaddr_un peer = {0};
	socklen_t length = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
	       peer.sun_family == AF_UNIX &&
	       length > offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1 &&
	       memcmp(peer.sun_path, name, sizeof(name) - 1) == 0;
}

struct ht_err *ownfds_is_heaptaps(
	const struct proc *proc, pid_t tid, int fd, const char *link, bool *ret)
{
	pid_t living;
	*ret = ours_is(link);
	if (strncmp(link, SOCKET_NAME, strlen(SOCKET_NAME)) != 0)
		return NULL;
	HT_TRY(proc_living_tid(proc, &living));
	FD_GUARD int own =
		tid ? descriptor_take_of(proc, tid, fd) : descriptor_take(proc, living, fd);
	if (own < 0)
		return errno == EBADF
			       ? NULL
			       : ht_err_sys(errno, "cannot look at descriptor %d of process %d", fd,
					 proc->pid);
	*ret = is_named(own);
	return NULL;
}
