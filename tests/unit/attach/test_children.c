/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/children.h"

#include <errno.h>
#include <sched.h>
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
#include "attach/target/memory.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/ptracecall.h"

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

/* --- in shared memory ---------------------------------------------------------------------------
 */

#define STACK_BYTES 65536u

static pid_t sharer;
static enum __ptrace_request ends_after; /* what it does not outlive */

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	long result = ptrace_really(request, tid, addr, data);
	if (request != ends_after || tid != sharer)
		return result;
	kill(sharer, SIGKILL);
	while (child_call(sharer) >= 0)
		sched_yield();
	return result;
}

static int wait_sharing(void *arg)
{
	(void)arg;
	child_wait();
}

static void be_parent_of_a_sharer(const void *arg)
{
	static uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));
	(void)arg;
	child_ready(clone(wait_sharing, stack + sizeof(stack), CLONE_VM, NULL));
	child_wait();
}

/* The stub's place in the memory of both is what it was, whoever is to be cleaned ends when it has
 * been sent there, or is back from there. */
static void check_place(enum __ptrace_request request)
{
	static const uint8_t zeros[STUB_BYTES_MAX];
	uint8_t place[STUB_BYTES_MAX];
	int pair[2];
	struct stat ours;
	struct children_report report;
	struct journal journal;
	struct proc proc;
	void *page = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct remote_slack slack = {.addr = (raddr_t)(uintptr_t)page, .bytes = sizeof(zeros)};

	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	ck_assert_int_eq(fstat(pair[0], &ours), 0);
	struct child parent = child_fork(be_parent_of_a_sharer, NULL);
	sharer = (pid_t)parent.value;
	ends_after = request;
	close(pair[0]);
	ck_no_err(proc_open(parent.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(journal_create(&journal));
	journal_begin(&journal, slack.addr + HT_PAGE_BYTES, 0, 0);
	journal_set_sockets(&journal, -1, ours.st_ino, 0);
	ck_no_err(children_clean(&(struct children_options){.target = &proc,
					 .daemon_pid = getpid(),
					 .journal = &journal,
					 .slack = &slack,
					 .deadline_mono_ns = clock_mono_ns() + CLOCK_NS_PER_S},
		&report));
	ck_assert(!is_named(&report, parent.pid));
	ck_no_err(memory_read(&proc, slack.addr, place, sizeof(place)));
	ck_assert_int_lt(child_call(sharer), 0);
	ck_assert_mem_eq(place, zeros, sizeof(zeros));
	journal_destroy(&journal);
	proc_close(&proc);
	child_kill(&parent);
	close(pair[1]);
	munmap(page, HT_PAGE_BYTES);
}

START_TEST(who_ends_leaves_no_stub_in_shared_memory)
{
	check_place(PTRACE_CONT);
	check_place(PTRACE_DETACH);
}
END_TEST

HT_SUITE("attach/children", who_ends_leaves_no_stub_in_shared_memory,
	a_child_that_cannot_be_looked_at_is_named, a_child_whose_lock_is_held_is_named)
