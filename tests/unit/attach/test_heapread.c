/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that reads the heap has ended when the capture is over: while it dies it still holds
 * heaptap's descriptors, and so the lock.
 */
#include "attach/trace/heapread.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define DYING_US 200000 /* longer than heapread_stop waits for the dying process */

/* A tracer delays the death of the process, as if the process got no CPU time. */
static void hold_up(const void *arg)
{
	const struct child *dying = arg;
	int status;
	if (ptrace(PTRACE_SEIZE, dying->pid, NULL, PTRACE_O_TRACEEXIT))
		_exit(1);
	child_ready(0);
	waitpid(dying->pid, &status, __WALL);
	usleep(DYING_US);
	ptrace(PTRACE_CONT, dying->pid, NULL, NULL);
	/* The kernel reports the death to the tracer first; only then can the parent reap the
	 * process. */
	waitpid(dying->pid, &status, __WALL);
	child_wait();
}

HT_TEST(one_that_dies_late_is_waited_for_in_the_end)
{
	struct child dying = child_fork(child_idle, NULL), tracer = child_fork(hold_up, &dying);
	struct heapread reading = {.pid = dying.pid};
	heapread_stop(&reading);
	ck_assert_int_eq(reading.pid, 0);
	ck_assert_int_eq(kill(dying.pid, 0), 0);
	heapread_finish(&reading);
	ck_assert_int_eq(kill(dying.pid, 0), -1);
	ck_assert_int_eq(errno, ESRCH);
	child_kill(&tracer);
}

HT_SUITE("attach/heapread")
