/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/children.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/lock.h"
#include "attach/target/clock.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

static void be_parent(const void *arg)
{
	(void)arg;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
	child_ready(pid);
	child_wait();
}

static bool is_named(const struct children_report *report, pid_t pid)
{
	bool named = false;
	for (size_t i = 0; i < report->left && i < CHILDREN_NAMED_MAX; i++)
		named |= report->named[i] == pid;
	return named;
}

/* It may have anything of ours. */
START_TEST(a_child_that_cannot_be_looked_at_is_named)
{
	struct child parent = child_fork(be_parent, NULL);
	struct remote_slack slack = {.addr = HT_PAGE_BYTES, .bytes = 1};
	struct children_report report;
	struct journal journal;
	struct proc proc;

	ck_no_err(proc_open(parent.pid, &proc));
	ck_no_err(journal_create(&journal));
	struct children_options options = {.target = &proc,
		.daemon_pid = getpid(),
		.journal = &journal,
		.slack = &slack,
		.deadline_mono_ns = clock_mono_ns()};
	ck_no_err(children_clean(&options, &report));
	ck_assert(!is_named(&report, (pid_t)parent.value));
	deny_calls(SYS_readlinkat, ENOMEM);
	ck_no_err(children_clean(&options, &report));
	ck_assert(is_named(&report, (pid_t)parent.value));
	ck_assert_uint_gt(report.pending, 0);
	journal_destroy(&journal);
	proc_close(&proc);
	child_kill(&parent);
}
END_TEST

/* It has a descriptor of ours, whoever has its lock. */
START_TEST(a_child_whose_lock_is_held_is_named)
{
	int pair[2];
	struct stat ours;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	ck_assert_int_eq(fstat(pair[0], &ours), 0);
	struct child parent = child_fork(be_parent, NULL);
	struct remote_slack slack = {.addr = HT_PAGE_BYTES, .bytes = 1};
	struct children_report report;
	struct journal journal;
	struct proc proc, child;
	struct lock lock;

	ck_no_err(proc_open(parent.pid, &proc));
	ck_no_err(proc_open((pid_t)parent.value, &child));
	ck_no_err(journal_create(&journal));
	journal.header->agent_fd_inode = ours.st_ino;
	ck_no_err(lock_take(&child, &lock));
	struct children_options options = {.target = &proc,
		.daemon_pid = getpid(),
		.journal = &journal,
		.slack = &slack,
		.deadline_mono_ns = clock_mono_ns()};
	ck_no_err(children_clean(&options, &report));
	ck_assert(is_named(&report, (pid_t)parent.value));
	lock_release(&lock);
	journal_destroy(&journal);
	proc_close(&child);
	proc_close(&proc);
	child_kill(&parent);
	close(pair[0]);
	close(pair[1]);
}
END_TEST

HT_SUITE("attach/children", a_child_that_cannot_be_looked_at_is_named,
	a_child_whose_lock_is_held_is_named)
