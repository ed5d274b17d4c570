/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/crowd.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define MORE 9u /* start() makes twice as many threads as there are cores, and MORE */

static struct shared {
	volatile uint64_t turns[CROWD_MAX];
	volatile unsigned looks[CROWD_MAX], gone[CROWD_MAX];
	volatile size_t number;
	volatile pid_t in_vfork;
	volatile bool becomes_another;
} * shared;

static struct proc proc;
static pid_t tids[CROWD_MAX];
static size_t count;

static void *compute(void *arg)
{
	volatile uint64_t *turns = arg;
	for (;;)
		++*turns;
	return arg;
}

static void *wait_for_a_child(void *arg)
{
	shared->in_vfork = gettid();
	if (vfork() == 0)
		for (;;)
			pause();
	return arg;
}

static void compute_together(const void *arg)
{
	pthread_t thread;
	for (size_t i = 0; i < shared->number; i++)
		pthread_create(&thread, NULL, compute, (void *)&shared->turns[i]);
	if (*(const bool *)arg)
		pthread_create(&thread, NULL, wait_for_a_child, NULL);
	child_ready(0);
	child_wait();
}

/* Makes threads that compute. On demand the main thread execs: the kernel kills all others first.
 */
static void compute_until_exec(const void *arg)
{
	pthread_t thread;
	(void)arg;
	for (size_t i = 0; i < shared->number; i++)
		pthread_create(&thread, NULL, compute, (void *)&shared->turns[i]);
	child_ready(0);
	while (!shared->becomes_another)
		sched_yield();
	execl("/bin/true", "true", NULL);
}

static struct child start_body(void (*body)(const void *), bool and_one_in_vfork)
{
	struct proc_tids all;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	shared->number = (size_t)sysconf(_SC_NPROCESSORS_ONLN) * 2 + MORE;
	struct child child = child_fork(body, &and_one_in_vfork);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	while (and_one_in_vfork && child_call(shared->in_vfork) < 0)
		sched_yield();
	ck_no_err(proc_tids_read(&proc, &all));
	count = 0;
	for (size_t i = 0; i < all.count; i++)
		if (all.tid[i] != child.pid)
			tids[count++] = all.tid[i];
	proc_tids_deinit(&all);
	return child;
}

/* Starts a process with more computing threads than cores; if `and_one_in_vfork`, also with a
 * thread that does not stop. */
static struct child start(bool and_one_in_vfork)
{
	return start_body(compute_together, and_one_in_vfork);
}

static void finish(struct child *child)
{
	proc_close(&proc);
	child_kill(child);
}

static struct ht_err *count_look(void *context, size_t at, struct tracee *tracee)
{
	(void)context;
	ck_assert_int_eq(tracee->tid, tids[at]);
	shared->looks[at]++;
	return NULL;
}

static void count_gone(void *context, size_t at)
{
	(void)context;
	shared->gone[at]++;
}

static struct crowd crowd_with(struct ht_err *(*look)(void *, size_t, struct tracee *))
{
	return (struct crowd){.proc = &proc,
		.tid = tids,
		.count = count,
		.together = true,
		.look = look,
		.gone = count_gone};
}

static void check_all_go_on(void)
{
	for (size_t i = 0; i < shared->number; i++)
		for (uint64_t turns = shared->turns[i]; shared->turns[i] == turns;)
			sched_yield();
}

HT_TEST(each_is_looked_at_once_and_goes_on)
{
	struct child child = start(false);
	struct crowd crowd = crowd_with(count_look);
	struct crowd_report report;
	tids[count] = 0x7ffffff; /* no thread has that number */
	crowd.count++;
	ck_no_err(crowd_stop(&crowd, &report));
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(shared->looks[i] == 1 && !shared->gone[i], "thread %zu", i);
	ck_assert_uint_eq(shared->looks[count], 0);
	ck_assert_uint_eq(shared->gone[count], 1);
	ck_assert_uint_eq(report.stopped, count);
	check_all_go_on();
	finish(&child);
}

static struct ht_err *fail_each(void *context, size_t at, struct tracee *tracee)
{
	ht_err_free(count_look(context, at, tracee));
	return ht_err_new(HT_ERR_INTERNAL, "as the test wants it");
}

HT_TEST(all_threads_continue_after_any_failure)
{
	struct child child = start(false);
	struct crowd crowd = crowd_with(fail_each);
	struct crowd_report report;
	ck_err(crowd_stop(&crowd, &report), HT_ERR_INTERNAL);
	ck_assert_uint_eq(report.stopped, count);
	check_all_go_on();
	finish(&child);
}

/* Kills the worker in its third call, while some threads are held and others are being stopped. */
static struct ht_err *die_in_the_third(void *context, size_t at, struct tracee *tracee)
{
	static unsigned looks;
	if (++looks == 3)
		raise(SIGKILL);
	return count_look(context, at, tracee);
}

HT_TEST(threads_go_on_when_the_worker_dies)
{
	struct child child = start(false);
	struct crowd crowd = crowd_with(die_in_the_third);
	struct crowd_report report;
	int status;
	pid_t worker = fork();
	if (!worker) {
		ht_err_free(crowd_stop(&crowd, &report));
		_exit(1);
	}
	ck_assert_int_eq(waitpid(worker, &status, 0), worker);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	check_all_go_on();
	finish(&child);
}

/* crowd_stop waits seconds for the thread that does not stop; threads already looked at must go on
 * meanwhile. */
HT_TEST(a_thread_that_does_not_stop_delays_no_other)
{
	struct child child = start(true);
	struct crowd crowd = crowd_with(count_look);
	struct crowd_report report;
	pid_t worker = fork();
	if (!worker) {
		ht_err_free(crowd_stop(&crowd, &report));
		_exit(1);
	}
	for (size_t i = 0; i < count; i++)
		while (tids[i] != shared->in_vfork && !shared->looks[i])
			sched_yield();
	check_all_go_on();
	ck_assert_int_eq(waitpid(worker, NULL, WNOHANG), 0);
	kill(worker, SIGKILL);
	ck_assert_int_eq(waitpid(worker, NULL, 0), worker);
	finish(&child);
}

/* Holds the thread until another thread's exec kills it. */
static struct ht_err *outlive(void *context, size_t at, struct tracee *tracee)
{
	shared->becomes_another = true;
	while (!tracee_has_ended(tracee->tid))
		sched_yield();
	return count_look(context, at, tracee);
}

/* The exec waits in the kernel until the tracer has seen the end of all other threads. */
HT_TEST(a_thread_killed_while_held_blocks_no_exec)
{
	struct child child = start_body(compute_until_exec, false);
	struct crowd crowd = crowd_with(outlive);
	struct crowd_report report;
	ht_err_free(crowd_stop(&crowd, &report));
	ck_assert_uint_ge(report.stopped, 1);
	for (size_t i = 0; i < count; i++) {
		siginfo_t info = {0};
		int got = waitid(P_PID, (id_t)tids[i], &info, __WALL | WEXITED | WNOHANG | WNOWAIT);
		ck_assert_msg(got < 0 && errno == ECHILD, "thread %zu is left", i);
	}
	int status;
	ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	proc_close(&proc);
}

HT_SUITE("attach/thread/crowd")
