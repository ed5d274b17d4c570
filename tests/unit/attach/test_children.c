/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/children.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/proc/clock.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/ptracecall.h"

static pid_t fork_one(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
	return pid;
}

static void be_parent(const void *arg)
{
	(void)arg;
	child_ready(fork_one());
	child_wait();
}

static bool is_named(const struct children_report *report, pid_t pid)
{
	bool named = false;
	for (size_t i = 0; i < report->left && i < CHILDREN_NAMED_MAX; i++)
		named |= report->named[i] == pid;
	return named;
}

/* The child may have any leftover, so the report names it. */
HT_TEST(a_child_that_cannot_be_looked_at_is_named)
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

/* If another process holds the lock of a child, heaptap cannot close its own descriptor there, and
 * names the child. */
HT_TEST(a_child_whose_lock_is_held_is_named)
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

/* --- in shared memory ---------------------------------------------------------------------------
 */

#define NOWHERE 0x200000000000u /* nothing is mapped there, no sanitizer's shadow either */

static pid_t ends; /* a child that is killed during its cleaning, after request `ends_after` */
static enum __ptrace_request ends_after;
static int ended[2] = {-1, -1}, left[2]; /* pipes: `ends` is dead; the PID of its child */

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	long result = ptrace_really(request, tid, addr, data);
	if (request != ends_after || tid != ends)
		return result;
	kill(ends, SIGKILL);
	while (child_call(ends) >= 0)
		sched_yield();
	struct pollfd wait = {.fd = left[0], .events = POLLIN};
	if (ended[1] >= 0 && write(ended[1], "", 1) == 1)
		poll(&wait, 1, -1);
	return result;
}

/* A target, its child with one of heaptap's descriptors, and the report of the cleaning. */
struct kin_case {
	void *page; /* with room for the stub */
	int pair[2];
	struct remote_slack slack;
	struct journal journal;
	struct child parent;
	struct proc proc;
	struct children_report report;
};

static struct kin_case kin_make(void (*body)(const void *arg))
{
	struct kin_case kin = {.page = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
	struct stat ours;

	ck_assert_ptr_ne(kin.page, MAP_FAILED);
	kin.slack = (struct remote_slack){
		.addr = (raddr_t)(uintptr_t)kin.page, .bytes = STUB_BYTES_MAX};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, kin.pair), 0);
	ck_assert_int_eq(fstat(kin.pair[0], &ours), 0);
	kin.parent = child_fork(body, NULL);
	close(kin.pair[0]);
	ck_no_err(proc_open(kin.parent.pid, &kin.proc));
	ck_no_err(proc_open_mem(&kin.proc));
	ck_no_err(journal_create(&kin.journal));
	journal_begin(&kin.journal, NOWHERE, 0, 0);
	journal_set_sockets(&kin.journal, -1, ours.st_ino, 0);
	return kin;
}

static void kin_clean(struct kin_case *kin)
{
	ck_no_err(children_clean(&(struct children_options){.target = &kin->proc,
					 .daemon_pid = getpid(),
					 .journal = &kin->journal,
					 .slack = &kin->slack,
					 .deadline_mono_ns = clock_mono_ns() + CLOCK_NS_PER_S},
		&kin->report));
}

static bool kin_has_socket(const struct kin_case *kin, pid_t pid)
{
	char name[64];
	struct stat stat;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, kin->pair[0]);
	return lstat(name, &stat) == 0;
}

static void kin_end(struct kin_case *kin)
{
	journal_destroy(&kin->journal);
	proc_close(&kin->proc);
	child_kill(&kin->parent);
	close(kin->pair[1]);
	munmap(kin->page, HT_PAGE_BYTES);
}

/* The stub's place in the shared memory gets its bytes back, whether the child dies when it is sent
 * to the stub or when it has come back. */
static void check_place(enum __ptrace_request request)
{
	static const uint8_t zeros[STUB_BYTES_MAX];
	uint8_t place[STUB_BYTES_MAX];
	struct kin_case kin = kin_make(child_idle_shared);

	ends = (pid_t)kin.parent.value;
	ends_after = request;
	kin_clean(&kin);
	ck_assert(!is_named(&kin.report, kin.parent.pid));
	ck_no_err(memory_read(&kin.proc, kin.slack.addr, place, sizeof(place)));
	ck_assert_int_lt(child_call(ends), 0);
	ck_assert_mem_eq(place, zeros, sizeof(zeros));
	kin_end(&kin);
}

HT_TEST(ending_child_leaves_no_stub_in_shared_memory)
{
	check_place(PTRACE_CONT);
	check_place(PTRACE_DETACH);
}

/* An earlier heaptap died and left the stub. */
HT_TEST(a_stub_in_the_targets_place_is_taken_out)
{
	static const uint8_t zeros[STUB_BYTES_MAX];
	static struct stub stub;
	uint8_t place[STUB_BYTES_MAX];
	struct kin_case kin = kin_make(child_idle);
	const struct stub_map map = {.image_bytes = HT_PAGE_BYTES, .name = "test"};

	ck_no_err(stub_make_map(&map, kin.slack.addr, &(struct stub_thread){0}, &stub));
	ck_no_err(memory_write(&kin.proc, kin.slack.addr, stub.bytes, stub.length));
	kin_clean(&kin);
	ck_no_err(memory_read(&kin.proc, kin.slack.addr, place, sizeof(place)));
	ck_assert_mem_eq(place, zeros, sizeof(zeros));
	ck_assert_uint_eq(kin.report.left, 0);
	kin_end(&kin);
}

/* A process that has a page of the agent's image mapped. Its child shares that memory, but has a
 * descriptor of its own. */
static void be_parent_with_a_page(const void *arg)
{
	char name[32];
	snprintf(name, sizeof(name), OURS_FILE "%d", getppid());
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, HT_PAGE_BYTES) < 0 ||
		mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, ABI_THUNKS_OFF) ==
			MAP_FAILED)
		return;
	close(fd);
	child_idle_shared(arg);
}

HT_TEST(sharer_of_a_jump_page_keeps_no_socket)
{
	struct kin_case kin = kin_make(be_parent_with_a_page);
	pid_t pid = (pid_t)kin.parent.value;

	ck_assert(kin_has_socket(&kin, pid));
	kin_clean(&kin);
	ck_assert(!kin_has_socket(&kin, pid));
	ck_assert_msg(kin.report.left == 0, "%d: %s", kin.report.named[0], kin.report.why);
	ck_assert_uint_eq(kin.report.cleaned, 1);
	kin_end(&kin);
}

/* --- processes forked during cleaning ------------------------------------------------------------
 */

static void be_parent_of_two(const void *arg)
{
	char byte;
	(void)arg;
	child_ready(fork_one());
	if (read(ended[0], &byte, 1) != 1)
		return;
	pid_t second = fork_one();
	if (write(left[1], &second, sizeof(second)) == (ssize_t)sizeof(second))
		child_wait();
}

/* A child dies while it is cleaned; the process that it forked must be cleaned all the same. */
HT_TEST(child_forked_during_cleaning_is_cleaned)
{
	pid_t second;
	ck_assert_int_eq(pipe(ended), 0);
	ck_assert_int_eq(pipe(left), 0);
	struct kin_case kin = kin_make(be_parent_of_two);

	ends = (pid_t)kin.parent.value;
	ends_after = PTRACE_CONT;
	kin_clean(&kin);
	ck_assert_int_eq(read(left[0], &second, sizeof(second)), sizeof(second));
	ck_assert(!kin_has_socket(&kin, second));
	ck_assert_msg(kin.report.left == 0, "%d: %s", kin.report.named[0], kin.report.why);
	kin_end(&kin);
}

HT_SUITE("attach/children")
