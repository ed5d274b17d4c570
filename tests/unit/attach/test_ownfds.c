/* SPDX-License-Identifier: Apache-2.0
 *
 * Which descriptors of a process are heaptap's and which are its own, whatever they refer to. The
 * process is the test itself.
 */
#include "attach/inject/ownfds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/stub/stub_layout.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define LEVEL_BYTES 200
#define LEVELS	    (PATH_MAX / LEVEL_BYTES + 1)

static struct proc self;
static int deep = -1, pair[2];
static struct journal_header header;

static uint64_t inode_of(int fd)
{
	struct stat stat;
	ck_assert_int_eq(fstat(fd, &stat), 0);
	return stat.st_ino;
}

/* Opens a directory whose path is longer than a link of /proc can hold, and removes it. */
static int deep_open(void)
{
	int fd[LEVELS + 1];
	char name[LEVEL_BYTES + 1], *top = tmpdir_path("");

	memset(name, 'd', LEVEL_BYTES);
	name[LEVEL_BYTES] = '\0';
	fd[0] = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < LEVELS; i++) {
		ck_assert_int_eq(mkdirat(fd[i], name, 0700), 0);
		fd[i + 1] = openat(fd[i], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(fd[i + 1], 0);
	}
	for (unsigned i = LEVELS; i-- > 0;) {
		ck_assert_int_eq(unlinkat(fd[i], name, AT_REMOVEDIR), 0);
		close(fd[i]);
	}
	free(top);
	return fd[LEVELS];
}

static void begin(void)
{
	char link[16], path[32];
	ck_no_err(proc_open(getpid(), &self));
	deep = deep_open();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", deep);
	ck_assert_int_eq(readlink(path, link, sizeof(link)), -1);
	ck_assert_int_eq(errno, ENAMETOOLONG);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	header = (struct journal_header){.agent_fd = pair[0],
		.agent_fd_inode = inode_of(pair[0]),
		.daemon_fd_inode = inode_of(pair[1]),
		.daemon_pid = (uint32_t)getpid()};
}

static void end(void)
{
	close(deep);
	close(pair[0]);
	close(pair[1]);
	proc_close(&self);
}

HT_TEST(ours_are_found)
{
	int fd[STUB_UNMAP_FDS];
	size_t count;

	begin();
	ck_no_err(ownfds_find(&self, &header, false, fd, &count));
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(fd[0], pair[0]);
	ck_no_err(ownfds_find(&self, &header, true, fd, &count));
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(fd[0] + fd[1], pair[0] + pair[1]);
	end();
}

/* The agent's number now belongs to a directory of the process, whose path is too long for a link
 * of /proc. */
HT_TEST(a_number_of_the_process_is_none_of_ours)
{
	int fd[STUB_UNMAP_FDS] = {pair[0]};
	size_t count;

	begin();
	header.agent_fd = deep;
	ck_no_err(ownfds_find(&self, &header, false, fd, &count));
	ck_assert_uint_eq(count, 0);
	end();
}

HT_TEST(other_descriptors_are_not_marked)
{
	int fd[STUB_UNMAP_FDS] = {0};
	size_t count = 2;

	begin();
	fd[0] = deep;
	fd[1] = pair[0];
	ck_no_err(ownfds_mark(&self, getpid(), false, &header, fd, &count));
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(fd[0], pair[0]);
	ck_assert_int_eq(fcntl(pair[0], F_GETSIG), STUB_MARK);
	ck_assert_int_eq(fcntl(pair[1], F_GETSIG), 0);
	ck_assert_int_eq(fcntl(deep, F_GETSIG), 0);
	end();
}

static struct ht_err *see_socket(void *context, pid_t tid, int fd, const char *link)
{
	(void)tid;
	*(unsigned *)context +=
		(fd == pair[0] || fd == pair[1]) && strncmp(link, "socket:", 7) == 0;
	return NULL;
}

HT_TEST(all_are_visited)
{
	unsigned sockets = 0;

	begin();
	ck_no_err(ownfds_visit(&self, see_socket, &sockets));
	ck_assert_uint_eq(sockets, 2);
	end();
}

HT_SUITE("unit/attach/ownfds")
