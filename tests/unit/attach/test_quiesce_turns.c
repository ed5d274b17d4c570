/* SPDX-License-Identifier: Apache-2.0
 *
 * More computing threads than cores: which threads heaptap stops, and when.
 */
#include "attach/proof/quiesce.h"

#include <pthread.h>
#include <sched.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/thread/preempted.h"
#include "attach/thread/proc_where.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define THUNK	 0x5a5a00020000ull
#define SPINNERS 6u /* some lose the core, or get it, between one look and the next */

static struct proc proc;

static enum quiesce_books no_books(void *context, const struct proc *of, pid_t tid)
{
	(void)context, (void)of, (void)tid;
	return QUIESCE_UNKNOWN;
}

static struct quiesce *start(const struct child *child)
{
	struct quiesce *quiesce;
	ck_no_err(proc_open(child->pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(quiesce_create(
		&(struct quiesce_options){.proc = &proc,
			.ranges = {.thunk_lo = THUNK, .thunk_hi = THUNK + HT_PAGE_BYTES},
			.books = no_books},
		&quiesce));
	return quiesce;
}

static struct quiesce_report pass(struct quiesce *quiesce)
{
	struct quiesce_report report;
	ck_no_err(quiesce_pass(quiesce, &report));
	return report;
}

static void finish(struct quiesce *quiesce, struct child *child)
{
	quiesce_destroy(quiesce);
	proc_close(&proc);
	child_kill(child);
}

static void *spin_for_good(void *arg)
{
	static volatile uint64_t turns;
	for (;;)
		turns++;
	return arg;
}

/* All threads spin on one core: one runs, the others are preempted. */
static void spin_on_one_core(const void *arg)
{
	pthread_t thread;
	sched_setaffinity(0, sizeof(cpu_set_t), arg);
	for (size_t i = 0; i < SPINNERS; i++)
		pthread_create(&thread, NULL, spin_for_good, NULL);
	child_ready(0);
	child_wait();
}

static void wait_until_all_have_run(const struct child *child)
{
	struct proc_tids tids;
	ck_no_err(proc_tids_read(&proc, &tids));
	ck_assert_uint_eq(tids.count, SPINNERS + 1);
	for (size_t i = 0; i < tids.count; i++) {
		uint64_t least_ns = proc_ran_ns(&proc, tids.tid[i]) + CLOCK_NS_PER_MS;
		while (tids.tid[i] != child->pid && proc_ran_ns(&proc, tids.tid[i]) < least_ns)
			sched_yield();
	}
	proc_tids_deinit(&tids);
}

static pid_t find_running(const struct child *child)
{
	struct proc_tids tids;
	pid_t running = 0;
	ck_no_err(proc_tids_read(&proc, &tids));
	for (size_t i = 0; i < tids.count; i++)
		if (tids.tid[i] != child->pid && !preempted_is(&proc, tids.tid[i]))
			running = tids.tid[i];
	proc_tids_deinit(&tids);
	return running;
}

/* The test has another core, if there is one, so that one spinner runs when it is first seen. */
static struct quiesce *start_beside_spinners(struct child *child)
{
	cpu_set_t allowed, core[2];
	size_t found = 0;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	for (int i = 0; i < CPU_SETSIZE && found < HT_ARRAY_SIZE(core); i++)
		if (CPU_ISSET(i, &allowed)) {
			CPU_ZERO(&core[found]);
			CPU_SET(i, &core[found++]);
		}
	ck_assert_int_eq(sched_setaffinity(0, sizeof(core[0]), &core[0]), 0);
	*child = child_fork(spin_on_one_core, &core[found - 1]);
	child_sleeping(child);
	struct quiesce *quiesce = start(child);
	wait_until_all_have_run(child);
	while (found > 1 && !find_running(child))
		sched_yield();
	return quiesce;
}

/* All threads were stopped in the first pass that stopped any. */
static void check_all_at_once(const struct quiesce_report *report)
{
	ck_assert_uint_eq(report->stopped, SPINNERS);
	ck_assert_uint_eq(report->left, 0);
}

/* The kernel updates the CPU time of a running thread only at the next tick. */
HT_TEST(computing_threads_stop_all_at_once)
{
	struct child child;
	struct quiesce *quiesce = start_beside_spinners(&child);
	struct quiesce_report report = pass(quiesce);
	for (unsigned i = 1; i < 4 && report.stopped == 0; i++)
		report = pass(quiesce);
	if (report.stopped == 0) {
		wait_until_all_have_run(&child);
		report = pass(quiesce);
	}
	check_all_at_once(&report);
	finish(quiesce, &child);
}

/* The thread that has the core now was seen preempted before and has not slept since. */
HT_TEST(rescheduled_thread_may_not_have_run)
{
	struct child child;
	struct quiesce *quiesce = start_beside_spinners(&child);
	struct quiesce_report report = pass(quiesce);
	for (unsigned i = 1; i < 4 && report.stopped == 0; i++) {
		pid_t running = find_running(&child);
		while (running && !preempted_is(&proc, running))
			sched_yield();
		report = pass(quiesce);
	}
	check_all_at_once(&report);
	finish(quiesce, &child);
}

HT_SUITE("attach/proof/quiesce, turns")
