/* SPDX-License-Identifier: Apache-2.0
 *
 * Only one heaptap works on a memory at a time; one that is dying is waited for.
 */
#include "attach/process/lock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define DYING_US 300000

static pid_t held_pid; /* the process whose lock hold() takes; 0: the parent */

static void hold(const void *for_us)
{
	struct proc proc;
	struct lock lock;
	if (proc_open(held_pid ? held_pid : getppid(), &proc) || lock_take(&proc, &lock))
		_exit(1);
	child_ready(0);
	if (!for_us)
		child_wait();
	usleep(*(const unsigned *)for_us);
	_exit(0);
}

HT_TEST(another_has_it)
{
	struct child child = child_fork(hold, NULL);
	struct proc proc;
	struct lock lock;
	ck_no_err(proc_open(getpid(), &proc));
	ck_assert(lock_is_held(&proc));
	ck_err_says(lock_take(&proc, &lock), HT_ERR_REFUSED, "another heaptap works on process");
	child_kill(&child);
	ck_no_err(lock_take(&proc, &lock));
	lock_release(&lock);
	ck_assert(!lock_is_held(&proc));
	proc_close(&proc);
}

HT_TEST(another_is_dying)
{
	const unsigned for_us = DYING_US;
	struct proc proc;
	struct lock lock;
	(void)child_fork(hold, &for_us);
	ck_no_err(proc_open(getpid(), &proc));
	ck_err_says(
		lock_take_now(&proc, &lock), HT_ERR_REFUSED, "another heaptap works on process");
	ck_no_err(lock_take(&proc, &lock));
	lock_release(&lock);
	proc_close(&proc);
}

/* The parent has reaped the process, so neither its PID nor its /proc directory leads to it. */
HT_TEST(its_process_has_ended)
{
	struct child child = child_fork(child_idle, NULL);
	struct proc proc;
	struct lock lock;
	ck_no_err(proc_open(child.pid, &proc));
	child_kill(&child);
	ck_err_says(lock_take(&proc, &lock), HT_ERR_TARGET_GONE, "has ended");
	proc_close(&proc);
}

static void check_one_of_two(const struct proc *a, const struct proc *b)
{
	struct lock lock, other;
	ck_no_err(lock_take(a, &lock));
	ck_assert(lock_is_held(b));
	ck_err_says(lock_take(b, &other), HT_ERR_REFUSED, "another heaptap works on process");
	ck_err_says(lock_take_now(b, &other), HT_ERR_REFUSED, "another heaptap works on process");
	ck_no_err(lock_take_beside(b, a, false, &other));
	lock_release(&other);
	lock_release(&lock);
	ck_no_err(lock_take(b, &other));
	lock_release(&other);
}

/* Two heaptaps would put both stubs in one place, and both agents in one memory. */
HT_TEST(another_has_its_memory)
{
	struct child child = child_fork(child_idle_shared, NULL);
	struct proc one, two;
	ck_no_err(proc_open(child.pid, &one));
	ck_no_err(proc_open((pid_t)child.value, &two));
	check_one_of_two(&one, &two);
	check_one_of_two(&two, &one);
	proc_close(&one);
	proc_close(&two);
	child_kill(&child);
}

/* `held` and `other` share their memory: a dying heaptap holds the lock of `held`, and the test
 * asks for that of `other`. */
static void check_dying(pid_t held, pid_t other)
{
	const unsigned for_us = DYING_US;
	struct proc proc;
	struct lock lock;
	held_pid = held;
	(void)child_fork(hold, &for_us);
	ck_no_err(proc_open(other, &proc));
	ck_err_says(
		lock_take_now(&proc, &lock), HT_ERR_REFUSED, "another heaptap works on process");
	ck_no_err(lock_take(&proc, &lock));
	lock_release(&lock);
	proc_close(&proc);
}

HT_TEST(another_is_dying_that_had_its_memory)
{
	struct child child = child_fork(child_idle_shared, NULL);
	check_dying((pid_t)child.value, child.pid);
	check_dying(child.pid, (pid_t)child.value);
	child_kill(&child);
}

/* A process that shares the memory may hold the lock. */
HT_TEST(fails_when_sharers_cannot_be_listed)
{
	struct child child = child_fork(child_idle, NULL);
	struct lock lock;
	struct proc proc;
	ck_no_err(proc_open(child.pid, &proc));
	deny_calls(SYS_getdents64, ENOMEM);
	ck_err_says(lock_take(&proc, &lock), HT_ERR_SYS, "cannot list /proc");
	ck_assert_int_lt(lock.name_fd, 0);
	ck_assert(lock_is_held(&proc));
	proc_close(&proc);
	child_kill(&child);
}

HT_SUITE("attach/lock")
