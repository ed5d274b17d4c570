/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_living.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

static int take_of_thread(const struct proc *proc, pid_t tid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	char path[32];

	/* The number still belongs to this thread after the pidfd was opened, so it did at the
	 * open. */
	snprintf(path, sizeof(path), "task/%d", tid);
	bool is_its = pidfd >= 0 && faccessat(proc->dir_fd, path, F_OK, 0) == 0;
	int got = is_its ? (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0) : -1;
	int sys = errno;

	fd_close(&pidfd);
	errno = sys;
	return got;
}

int descriptor_take(const struct proc *proc, pid_t tid, int fd)
{
	int got = (int)syscall(SYS_pidfd_getfd, proc->pidfd, fd, 0);
	/* If the main thread has ended, the process has no descriptors, but its threads do. */
	return got < 0 && errno == ESRCH ? take_of_thread(proc, tid, fd) : got;
}

int descriptor_take_of(const struct proc *proc, pid_t tid, int fd)
{
	int got = take_of_thread(proc, tid, fd);
	/* A copied table leads to the same files. */
	return got < 0 && errno == EINVAL ? descriptor_take(proc, tid, fd) : got;
}

static int compare(pid_t a, pid_t b)
{
	return a == b ? 0 : (int)syscall(SYS_kcmp, a, b, KCMP_FILES, 0, 0);
}

struct ht_err *descriptor_has_table(const struct proc *proc, pid_t tid, pid_t other, bool *ret)
{
	pid_t living;

	*ret = other && compare(tid, other) == 0;
	if (other)
		return NULL;
	/* A main thread that has ended has no table; finding a living one takes long. */
	*ret = tid != proc->pid && compare(proc->pid, tid) == 0;
	if (*ret)
		return NULL;
	struct ht_err *err = proc_living_tid(proc, &living);
	*ret = err || !living || compare(living, tid) <= 0;
	return err;
}

static bool is_known(const struct proc_tids *tables, pid_t tid)
{
	for (size_t i = 0; i < tables->count; i++)
		if (compare(tables->tid[i], tid) == 0)
			return true;
	return false;
}

struct ht_err *descriptor_tables(const struct proc *proc, struct proc_tids *ret)
{
	struct proc_tids tids, tables = {0};
	pid_t living;
	HT_TRY(proc_living_tid(proc, &living));
	HT_TRY(proc_tids_read(proc, &tids));
	/* The kept threads stand at the beginning of the list itself. */
	tables.tid = tids.tid;
	for (size_t i = 0; i < tids.count; i++) {
		pid_t tid = tids.tid[i];
		if ((!living || compare(living, tid) != 0) && !is_known(&tables, tid))
			tables.tid[tables.count++] = tid;
	}
	*ret = tables;
	return NULL;
}

static bool leads_to(const struct proc *proc, pid_t tid, int fd, const char *what)
{
	char name[48];
	char *link = NULL;
	snprintf(name, sizeof(name), "task/%d/fd/%d", tid, fd);
	bool leads = !ht_err_drop(proc_link(proc, name, &link)) &&
		     strncmp(link, what, strlen(what)) == 0;
	free(link);
	return leads;
}

/* Takes over sockets only: closing another file might have an effect. */
static int take_socket(const struct proc *proc, pid_t tid, int fd)
{
	return leads_to(proc, tid, fd, "socket:") ? descriptor_take(proc, tid, fd) : -1;
}

/* Closing a terminal has no effect either. False: `fd` is no terminal, or one in line mode. */
static bool read_terminal(const struct proc *proc, pid_t tid, int fd, struct termios *ret)
{
	static const char *const name[] = {"/dev/tty", "/dev/pts/", "/dev/console"};
	bool known = false;

	for (size_t i = 0; !known && i < HT_ARRAY_SIZE(name); i++) {
		int own = leads_to(proc, tid, fd, name[i]) ? descriptor_take(proc, tid, fd) : -1;
		known = own >= 0 && tcgetattr(own, ret) == 0;
		fd_close(&own);
	}
	return known && !(ret->c_lflag & ICANON);
}

bool descriptor_has_timeout(const struct proc *proc, pid_t tid, int fd, int option)
{
	struct timeval timeout = {0};
	struct termios terminal;
	socklen_t length = sizeof(timeout);
	FD_GUARD int own = take_socket(proc, tid, fd);

	if (own < 0)
		return option == SO_RCVTIMEO && read_terminal(proc, tid, fd, &terminal) &&
		       terminal.c_cc[VTIME] && !terminal.c_cc[VMIN];
	return getsockopt(own, SOL_SOCKET, option, &timeout, &length) == 0 &&
	       (timeout.tv_sec || timeout.tv_usec);
}

bool descriptor_gathers(const struct proc *proc, pid_t tid, int fd)
{
	int least = 0;
	struct termios terminal;
	socklen_t length = sizeof(least);
	FD_GUARD int own = take_socket(proc, tid, fd);

	if (own < 0)
		return read_terminal(proc, tid, fd, &terminal) && terminal.c_cc[VMIN] > 1;
	return getsockopt(own, SOL_SOCKET, SO_RCVLOWAT, &least, &length) == 0 && least > 1;
}

bool descriptor_takes_parts(const struct proc *proc, pid_t tid, int fd)
{
	int domain = AF_UNIX, type = 0;
	socklen_t domain_length = sizeof(domain), type_length = sizeof(type);
	FD_GUARD int own = take_socket(proc, tid, fd);

	if (own < 0)
		return leads_to(proc, tid, fd, "/dev/");
	return getsockopt(own, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length) == 0 &&
	       getsockopt(own, SOL_SOCKET, SO_TYPE, &type, &type_length) == 0 &&
	       domain != AF_UNIX && type == SOCK_STREAM;
}
