/* SPDX-License-Identifier: Apache-2.0
 *
 * Leftover descriptors that no journal lists: all are closed. If they cannot be listed, the error
 * says only that some may be left.
 */
#include "attach/undo/leftover.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/inject/ownfds.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define COPIES 11 /* more than twice as many as one stub closes */

/* Has `*count` descriptors of a socket whose peer has a name as a heaptap's has. */
static void have_copies(const void *count)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int length = snprintf(
		addr.sun_path + 1, sizeof(addr.sun_path) - 1, "heaptap-agent-%d", getpid());
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), own = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&addr, bytes) || listen(listener, 1) ||
		connect(own, (struct sockaddr *)&addr, bytes))
		_exit(1);
	for (int i = 1; i < *(const int *)count; i++)
		if (dup(own) < 0)
			_exit(1);
	child_ready(0);
	child_wait();
}

static struct child start(struct proc *proc, int copies)
{
	struct child child = child_fork(have_copies, &copies);
	ck_no_err(proc_open(child.pid, proc));
	ck_no_err(proc_open_mem(proc));
	return child;
}

static struct ht_err *count(void *context, pid_t tid, int fd, const char *link)
{
	bool ours;
	struct ht_err *err = ownfds_is_heaptaps(context, tid, fd, link, &ours);
	ck_assert(!err && !ours);
	return err;
}

HT_TEST(all_copies_are_closed)
{
	struct recover_report report = {.outcome = RECOVER_NOTHING};
	struct proc proc;
	struct child child = start(&proc, COPIES);
	ck_no_err(leftover_close(&proc, &report));
	ck_assert_int_eq(report.outcome, RECOVER_DONE);
	ck_no_err(ownfds_visit(&proc, count, &proc));
	proc_close(&proc);
	child_kill(&child);
}

/* Closes one leftover after `happens` befell this process or the child; the outcome must not
 * change. */
static struct ht_err *close_after(void (*happens)(struct child *child), enum recover_outcome found)
{
	struct recover_report report = {.outcome = found};
	struct proc proc;
	struct child child = start(&proc, 1);
	happens(&child);
	struct ht_err *err = leftover_close(&proc, &report);
	ck_assert_int_eq(report.outcome, found);
	proc_close(&proc);
	return err;
}

static void deny_looks(struct child *child)
{
	(void)child;
	deny_calls(SYS_pidfd_getfd, EPERM);
}

HT_TEST(unreadable_process_may_have_leftovers)
{
	ck_err_says(close_after(deny_looks, RECOVER_NOTHING), HT_ERR_INCOMPLETE, "may be left");
}

HT_TEST(ended_process_has_no_leftovers)
{
	ck_no_err(close_after(child_kill, RECOVER_DONE));
}

HT_SUITE("attach/leftover")
