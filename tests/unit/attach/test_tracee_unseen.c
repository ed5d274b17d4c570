/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of the tracer that fails does not prove that a thread has ended.
 */
#include "attach/thread/tracee.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/blocked.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define FAR_NS (60 * CLOCK_NS_PER_S)

static void spin(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		__asm__ volatile("pause");
}

/* Makes a wait that the kernel ends with EINTR after a mere stop. Once it has ended, the child is
 * in pause(2). */
static void block(const void *arg)
{
	(void)arg;
	child_ready(0);
	(void)blocked_epoll();
	child_wait();
}

/* One error that says that there is no such thread does not count while /proc shows the thread. */
HT_TEST(a_living_thread_is_never_gone)
{
	static const struct {
		uint32_t request;
		int error;
	} table[] = {{PTRACE_SEIZE, ESRCH}, {PTRACE_SEIZE, EPERM}, {PTRACE_INTERRUPT, ESRCH}};
	struct child child = child_fork(spin, NULL);
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		int status;
		pid_t tracer = fork();
		if (!tracer) {
			struct tracee tracee;
			enum tracee_result result;
			deny_calls_with(SYS_ptrace, 0, table[i].request, table[i].error);
			ck_no_err(tracee_ask(child.pid, false, &tracee, &result));
			_exit((int)result);
		}
		ck_assert_int_eq(waitpid(tracer, &status, 0), tracer);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == TRACEE_REFUSED,
			"row %zu: %x", i, (unsigned)status);
	}
	child_kill(&child);
}

HT_TEST(unreadable_thread_is_not_gone)
{
	struct child child = child_fork(spin, NULL);
	struct tracee tracee;
	enum tracee_result result;
	deny_calls_with(SYS_ptrace, 0, PTRACE_SEIZE, EPERM);
	rlim_t usual = deny_files();
	ck_no_err(tracee_ask(child.pid, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_REFUSED);
	allow_files(usual);
	child_kill(&child);
}

/* Registers that cannot be read in one way are read in another, so that the call is made again; if
 * no way works, the thread is let go, with an error. */
HT_TEST(registers_that_cannot_be_read)
{
	struct child child = child_fork(block, NULL);
	struct proc proc;
	struct proc_status status;
	struct proc_syscall call;
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(proc_open(child.pid, &proc));
	child_sleeping(&child);
	deny_calls_with(SYS_ptrace, 0, PTRACE_GETREGSET, EIO);
	ck_no_err(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	ck_assert_int_ge(regs_call(&tracee.regs), 0);
	ck_no_err(tracee_release(&tracee));
	child_sleeping(&child);
	ck_no_err(proc_syscall_read(&proc, child.pid, &call));
	ck_assert_int_ne(call.nr, SYS_pause);
	deny_calls_with(SYS_ptrace, 0, PTRACE_GETREGS, EIO);
	ck_err_says(tracee_stop(child.pid, clock_mono_ns() + FAR_NS, false, &tracee, &result),
		HT_ERR_SYS, "cannot read the registers");
	child_sleeping(&child);
	ck_no_err(proc_status(&proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	proc_close(&proc);
	child_kill(&child);
}

HT_SUITE("attach/thread/tracee: what is not seen")
