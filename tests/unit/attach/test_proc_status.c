/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_status reads a thread's stat file correctly, whatever the thread's name is.
 */
#include <sched.h>
#include <sys/prctl.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

static struct proc opened(pid_t pid)
{
	struct proc proc;
	ck_no_err(proc_open(pid, &proc));
	return proc;
}

static void rest_on_core(const void *arg)
{
	prctl(PR_SET_NAME, "a) S 1 (b) c");
	prctl(PR_SET_TIMERSLACK, 123456);
	child_ready(sched_setaffinity(0, sizeof(cpu_set_t), arg) == 0);
	child_wait();
}

HT_TEST(the_core_of_a_thread)
{
	cpu_set_t ours, one;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(ours), &ours), 0);
	for (int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &ours))
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		struct child child = child_fork(rest_on_core, &one);
		struct proc proc = opened(child.pid);
		ck_assert_int_eq(child.value, 1);
		ck_assert_int_eq(proc_core(&proc, child.pid), core);
		ck_assert_uint_eq(proc_timer_slack_ns(child.pid), 123456);
		child_kill(&child);
		ck_assert_int_eq(proc_core(&proc, child.pid), -1);
		proc_close(&proc);
	}
}

HT_TEST(the_age_of_a_thread)
{
	const uint64_t before_ns = clock_read_ns(CLOCK_BOOTTIME), tick_ns = 10 * CLOCK_NS_PER_MS;
	struct child child = child_fork(rest_on_core, &(cpu_set_t){0});
	struct proc proc = opened(child.pid);
	uint64_t age_ns = 0;
	/* The age grows, and is at most the time since the fork, plus a tick. */
	while (age_ns < 2 * tick_ns)
		age_ns = proc_age_ns(&proc, child.pid);
	ck_assert_uint_le(age_ns, clock_read_ns(CLOCK_BOOTTIME) - before_ns + tick_ns);
	child_kill(&child);
	ck_assert_uint_eq(proc_age_ns(&proc, child.pid), 0);
	proc_close(&proc);
}

HT_SUITE("attach/proc/proc_status")
