/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/undo/recover.h"
#include "attach/undo/jump_page.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procstage.h"

static struct proc opened(pid_t pid)
{
	struct proc proc;
	ck_no_err(proc_open(pid, &proc));
	return proc;
}

/* Makes a /proc directory with `entries` ended threads in its task list, whose status file says
 * that there are `told`. */
static struct proc staged(size_t entries, size_t told)
{
	char text[64];
	struct proc proc = opened(getpid());

	procstage_init(&proc);
	snprintf(text, sizeof(text), "Tgid:\t1\nState:\tS\nThreads:\t%zu\n", told);
	procstage_file("status", text);
	procstage_folder("task");
	for (size_t i = 0; i < entries; i++) {
		snprintf(text, sizeof(text), "task/%zu", 100000 + i);
		procstage_folder(text);
	}
	return proc;
}

/* Lists such a process; *ret is the number of entries. */
static struct ht_err *list_of(size_t entries, size_t told, size_t *ret)
{
	struct proc proc = staged(entries, told);
	struct proc_tids tids;
	struct ht_err *err = proc_tids_read(&proc, &tids);
	*ret = err ? 0 : tids.count;
	if (!err)
		proc_tids_deinit(&tids);
	proc_close(&proc);
	return err;
}

HT_TEST(a_list_is_not_shorter_than_the_kernel_counted)
{
	size_t count;
	ck_no_err(list_of(3, 3, &count));
	ck_assert_uint_eq(count, 3);
	ck_no_err(list_of(1500, 2, &count));
	ck_assert_uint_ge(count, 2);
	ck_no_err(list_of(1500, 1500, &count));
	ck_assert_uint_eq(count, 1500);
	ck_err_says(list_of(1500, 1501, &count), HT_ERR_REFUSED, "end faster");
}

HT_TEST(filters_that_cannot_be_seen_are_an_error)
{
	struct proc proc = staged(3, 4);
	bool any = true;

	ck_err_says(proc_any_seccomp(&proc, &any), HT_ERR_REFUSED, "end faster");
	proc_close(&proc);
	proc = staged(3, 3);
	ck_no_err(proc_any_seccomp(&proc, &any));
	ck_assert(!any);
	procstage_file("task/100001/status", "Name:\tno state\n");
	ck_err_says(proc_any_seccomp(&proc, &any), HT_ERR_FORMAT, "State");
	procstage_file("task/100001/status", "State:\tS\nTgid:\t1\nSeccomp:\t0\n");
	ck_no_err(proc_any_seccomp(&proc, &any));
	ck_assert(!any);
	procstage_file("task/100002/status", "State:\tS\nTgid:\t1\nSeccomp:\t2\n");
	ck_no_err(proc_any_seccomp(&proc, &any));
	ck_assert(any);
	proc_close(&proc);
}

/* A system call that a filter forbids would kill the target, so without the thread's state none is
 * made. */
HT_TEST(nothing_is_done_without_an_answer)
{
	struct proc proc = staged(1, 1);
	struct remote_slack slack = {.addr = HT_PAGE_BYTES, .bytes = 1};
	struct recover_options options = {.memfd = -1, .slack = &slack};
	struct recover_report report;
	uint64_t stop_ns;

	procstage_file("maps", "1000-2000 r-xp 00000000 00:00 0\n");
	procstage_file("task/100000/status", "Name:\tno state\n");
	ck_err_says(recover_run(&proc, &options, &report), HT_ERR_FORMAT, "State");
	ck_err_says(jump_page_remove(&proc, HT_PAGE_BYTES, &slack, 0, &stop_ns), HT_ERR_FORMAT,
		"State");
	proc_close(&proc);
}

#define RING 100u
#define TURN 25u

static struct ring {
	atomic_int tid[RING]; /* not 0 while the thread lives */
	atomic_uint turns[RING];
} * ring;

static void *ring_thread(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg;
	unsigned turns = ring->turns[i];
	ring->tid[i] = (int)syscall(SYS_gettid);
	while (ring->turns[i] == turns)
		usleep(100);
	return NULL;
}

static void ring_fill(size_t i)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 1 << 16);
	while (pthread_create(&thread, &attr, ring_thread, (void *)(uintptr_t)i) != 0)
		;
	pthread_attr_destroy(&attr);
	while (!ring->tid[i])
		sched_yield();
}

/* The oldest threads end, many at once, and new ones take their places. */
static void ring_turn(const void *arg)
{
	(void)arg;
	for (size_t i = 0; i < RING; i++)
		ring_fill(i);
	child_ready(0);
	for (size_t from = 0;; from = (from + TURN) % RING) {
		for (size_t i = from; i < from + TURN; i++) {
			ring->tid[i] = 0;
			ring->turns[i]++;
		}
		for (size_t i = from; i < from + TURN; i++)
			ring_fill(i);
	}
}

HT_TEST(no_living_thread_is_left_out)
{
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child = child_fork(ring_turn, NULL);
	struct proc proc = opened(child.pid);
	for (unsigned round = 0; round < 1000; round++) {
		int before[RING];
		struct proc_tids tids;
		for (size_t i = 0; i < RING; i++)
			before[i] = ring->tid[i];
		ck_no_err(proc_tids_read(&proc, &tids));
		for (size_t i = 0; i < RING; i++) {
			bool lived = before[i] && before[i] == ring->tid[i], listed = !lived;
			for (size_t k = 0; k < tids.count && !listed; k++)
				listed = tids.tid[k] == before[i];
			ck_assert_msg(listed, "round %u: thread %d", round, before[i]);
		}
		proc_tids_deinit(&tids);
	}
	proc_close(&proc);
	child_kill(&child);
}

HT_SUITE("attach/proc/proc_tids")
