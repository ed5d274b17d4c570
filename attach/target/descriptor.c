/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* Where the main thread has ended the process has no descriptors, but its threads have (6.9). */
static int take_of_thread(const struct proc *proc, pid_t tid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	char path[32];

	/* Still its number now that it is pinned: so it has been. */
	snprintf(path, sizeof(path), "task/%d", tid);
	bool is_its = pidfd >= 0 && faccessat(proc->dir_fd, path, F_OK, 0) == 0;
	int got = is_its ? (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0) : -1;
	int sys = errno;

	if (pidfd >= 0)
		close(pidfd);
	errno = sys;
	return got;
}

int descriptor_take(const struct proc *proc, pid_t tid, int fd)
{
	int got = (int)syscall(SYS_pidfd_getfd, proc->pidfd, fd, 0);
	return got < 0 && errno == ESRCH ? take_of_thread(proc, tid, fd) : got;
}

struct ht_err *descriptor_has_table(const struct proc *proc, pid_t tid, bool *ret)
{
	pid_t living;
	struct ht_err *err = proc_living_tid(proc, &living);
	*ret = err || !living || living == tid ||
	       syscall(SYS_kcmp, living, tid, KCMP_FILES, 0, 0) <= 0;
	return err;
}

/* Only a socket is ever taken: the close of another file might mean something to it. */
static bool is_socket(const struct proc *proc, pid_t tid, int fd)
{
	char name[48];
	char *link = NULL;
	snprintf(name, sizeof(name), "task/%d/fd/%d", tid, fd);
	struct ht_err *err = proc_link(proc, name, &link);
	bool socket = !err && strncmp(link, "socket:", strlen("socket:")) == 0;
	ht_err_free(err);
	free(link);
	return socket;
}

bool descriptor_has_timeout(const struct proc *proc, pid_t tid, int fd, int option)
{
	struct timeval timeout = {0};
	socklen_t length = sizeof(timeout);
	int own = is_socket(proc, tid, fd) ? descriptor_take(proc, tid, fd) : -1;

	if (own < 0)
		return false;
	bool known = getsockopt(own, SOL_SOCKET, option, &timeout, &length) == 0;
	close(own);
	return known && (timeout.tv_sec || timeout.tv_usec);
}
