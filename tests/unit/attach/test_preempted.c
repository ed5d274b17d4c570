/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/preempted.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

static struct shared {
	volatile int wake[2];
	volatile unsigned turns;
} * shared;

static void spin(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		shared->turns++;
}

static void wait_for_a_byte(const void *arg)
{
	char byte;
	(void)arg;
	child_ready(0);
	if (read(shared->wake[0], &byte, 1) == 1)
		child_wait();
}

static void setup(void)
{
	int wake[2];
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	ck_assert_int_eq(pipe(wake), 0);
	shared->wake[0] = wake[0];
	shared->wake[1] = wake[1];
}

/* Two processes compute on one core, so that one of them waits for it. */
HT_TEST(preempted_thread_is_seen)
{
	struct proc proc;
	setup();
	struct child child = child_fork(spin, NULL), other = child_fork(spin, NULL);
	child_share_core(child.pid, other.pid);
	ck_no_err(proc_open(child.pid, &proc));
	while (!preempted_is(&proc, child.pid))
		sched_yield();
	proc_close(&proc);
	child_kill(&child);
	child_kill(&other);
}

HT_TEST(sleeping_thread_is_in_a_call)
{
	struct proc proc;
	setup();
	struct child child = child_fork(wait_for_a_byte, NULL);
	child_sleeping(&child);
	ck_no_err(proc_open(child.pid, &proc));
	ck_assert(!preempted_is(&proc, child.pid));
	ck_assert(!preempted_is(&proc, 0x7ffffff));
	proc_close(&proc);
	child_kill(&child);
}

/* The thread's wait is over, but the thread has had no core since: a stop would begin the wait
 * anew. The thread gets no core as long as the other process computes on it. */
HT_TEST(woken_thread_is_in_a_call_until_it_runs)
{
	struct proc proc;
	unsigned looks = 0;
	setup();
	struct child child = child_fork(wait_for_a_byte, NULL), other = child_fork(spin, NULL);
	child_sleeping(&child);
	child_share_core(child.pid, other.pid);
	ck_assert_int_eq(sched_setscheduler(child.pid, SCHED_IDLE, &(struct sched_param){0}), 0);
	ck_no_err(proc_open(child.pid, &proc));
	uint64_t ran_ns = proc_ran_ns(&proc, child.pid);
	ck_assert_int_eq(write(shared->wake[1], "", 1), 1);
	for (;;) {
		bool preempted = preempted_is(&proc, child.pid);
		if (proc_ran_ns(&proc, child.pid) != ran_ns)
			break;
		ck_assert(!preempted);
		looks++;
	}
	ck_assert_uint_gt(looks, 0);
	proc_close(&proc);
	child_kill(&child);
	child_kill(&other);
}

HT_SUITE("attach/thread/preempted")
