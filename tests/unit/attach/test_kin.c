/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/kin.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define STACK_BYTES (64u << 10)

/* Children of the target: one shares its memory, one has a copy. */
static struct shared {
	pid_t sharer, copy;
} * shared;

static struct proc proc;
static struct child target, other;

static int share(void *arg)
{
	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_wait();
	return 0;
}

static void be_target(const void *arg)
{
	uint8_t *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)arg;
	shared->sharer = clone(share, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
	pid_t pid = fork();
	if (pid == 0)
		share(NULL);
	shared->copy = pid;
	child_ready(0);
	child_wait();
}

static void setup(void)
{
	static const char *const sleep_argv[] = {"sleep", "1000", NULL};
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	target = child_fork(be_target, NULL);
	ck_assert_int_gt(shared->sharer, 0);
	ck_assert_int_gt(shared->copy, 0);
	other = child_exec(sleep_argv, NULL);
	ck_no_err(proc_open(target.pid, &proc));
}

static bool is_shared_by(pid_t pid)
{
	bool shares;
	ck_no_err(kin_shares(&proc, pid, &shares));
	return shares;
}

static void finish(void)
{
	kill(shared->sharer, SIGKILL);
	while (is_shared_by(shared->sharer))
		;
	child_kill(&other);
	child_kill(&target);
	ck_assert(!is_shared_by(getpid()));
	proc_close(&proc);
}

static void check(void)
{
	const pid_t pid[] = {shared->sharer, shared->copy, other.pid, getpid(), 1};
	struct proc_tids tids;

	for (size_t i = 0; i < HT_ARRAY_SIZE(pid); i++)
		ck_assert_msg(is_shared_by(pid[i]) == (i == 0), "process %zu", i);
	ck_no_err(kin_sharing(&proc, &tids));
	ck_assert_uint_eq(tids.count, 1);
	ck_assert_int_eq(tids.tid[0], shared->sharer);
	proc_tids_deinit(&tids);
}

HT_TEST(processes_that_share_the_memory)
{
	setup();
	check();
	finish();
}

/* A kernel may lack kcmp(2), and a container may forbid it. */
HT_TEST(without_kcmp)
{
	static const int error[] = {EPERM, ENOSYS, ESRCH};
	for (size_t i = 0; i < HT_ARRAY_SIZE(error); i++) {
		setup();
		deny_calls(SYS_kcmp, error[i]);
		check();
		finish();
	}
}

HT_TEST(a_list_that_cannot_be_read_is_an_error)
{
	struct proc_tids tids;
	setup();
	deny_calls(SYS_getdents64, ENOMEM);
	ck_err_says(kin_sharing(&proc, &tids), HT_ERR_SYS, "cannot list /proc");
	ck_err_says(kin_forked(&proc, &tids), HT_ERR_SYS, "cannot list /proc");
	finish();
}

static size_t heirs_among_ours(void)
{
	struct proc_tids tids;
	size_t found = 0;
	ck_no_err(kin_forked(&proc, &tids));
	for (size_t i = 0; i < tids.count; i++)
		found += tids.tid[i] == shared->copy || tids.tid[i] == shared->sharer;
	proc_tids_deinit(&tids);
	return found;
}

/* The caller decides about a process that kin could not examine. */
HT_TEST(a_hidden_child_may_be_forked)
{
	setup();
	ck_assert_uint_eq(heirs_among_ours(), 2);
	deny_calls(SYS_statx, ENOMEM);
	ck_assert_uint_eq(heirs_among_ours(), 2);
	finish();
}

static bool is_heir(const struct proc *of, pid_t pid)
{
	struct proc_tids tids;
	bool is = false;
	ck_no_err(kin_forked(of, &tids));
	for (size_t i = 0; i < tids.count; i++)
		is |= tids.tid[i] == pid;
	proc_tids_deinit(&tids);
	return is;
}

/* A process that is left in the shared memory still has what the ended process had there. */
HT_TEST(a_process_left_in_the_memory_may_be_older)
{
	struct proc younger;
	setup();
	ck_no_err(proc_open(shared->sharer, &younger));
	ck_no_err(proc_open_mem(&younger));
	younger.start_ticks++;
	ck_assert(!is_heir(&younger, target.pid));
	kill(shared->sharer, SIGKILL);
	while (proc_changed(&younger) == PROC_SAME)
		;
	ck_assert(is_heir(&younger, target.pid));
	proc_close(&younger);
	finish();
}

HT_SUITE("attach/process/kin")
