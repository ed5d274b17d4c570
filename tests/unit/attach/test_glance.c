/* SPDX-License-Identifier: Apache-2.0
 *
 * glance sees filters, tracers and execs of a process by few reads, also if the process has an odd
 * name or its main thread has ended.
 */
#include "attach/process/glance.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define SOON_MS	    60000
#define CALLS_MAX   8
#define IDLE	    "HEAPTAP_TEST_IDLE"
#define STACK_BYTES 65536

static struct proc proc;
static struct glance glance;

static void look_at(pid_t pid)
{
	ck_no_err(proc_open(pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	glance_open(&glance, &proc);
	ck_assert_int_ge(glance.status_fd, 0);
}

static void look_away(void)
{
	glance_close(&glance);
	glance_close(&glance);
	proc_close(&proc);
}

static struct glance_status seen(void)
{
	struct glance_status status;
	ck_no_err(glance_status(&glance, &status));
	return status;
}

static int gate[2];

static void filter_on_demand(const void *arg)
{
	char byte;
	(void)arg;
	/* A process name that looks like lines of /proc/PID/status. */
	prctl(PR_SET_NAME, "\nSeccomp:\t1\nSta");
	child_ready(0);
	(void)!read(gate[0], &byte, 1);
	deny_calls(SYS_getpgid, EPERM);
	child_wait();
}

HT_TEST(filter_and_tracer)
{
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	struct child child = child_fork(filter_on_demand, NULL);
	look_at(child.pid);
	ck_assert_int_eq(seen().seccomp, 0);
	ck_assert_int_eq(seen().tracer, 0);
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, child.pid, 0, 0), 0);
	ck_assert_int_eq(seen().tracer, getpid());
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	run_until(seen().seccomp == SECCOMP_MODE_FILTER, SOON_MS);
	/* The same without the status file that glance keeps open. */
	int fd = glance.status_fd;
	glance.status_fd = -1;
	ck_assert_int_eq(seen().seccomp, SECCOMP_MODE_FILTER);
	ck_assert_int_eq(seen().tracer, getpid());
	glance.status_fd = fd;
	child_kill(&child);
	struct glance_status status;
	struct ht_err *err = glance_status(&glance, &status);
	ck_assert(err && err->code == HT_ERR_TARGET_GONE);
	ht_err_free(err);
	look_away();
}

static void *filtered(void *arg)
{
	(void)arg;
	deny_calls(SYS_getpgid, EPERM);
	child_ready(0);
	child_wait();
}

static void end_the_leader(const void *arg)
{
	pthread_t thread;
	(void)arg;
	pthread_create(&thread, NULL, filtered, NULL);
	pthread_exit(NULL);
}

static HT_NOINLINE void go_deep(void)
{
	volatile char deep[1 << 20];
	for (size_t i = sizeof(deep); i > 0; i -= 1024)
		deep[i - 1] = 1;
}

static void grow_on_demand(const void *arg)
{
	char byte;
	(void)arg;
	child_ready(0);
	if (read(gate[0], &byte, 1) == 1)
		go_deep();
	child_wait();
}

HT_TEST(the_stack_of_the_main_thread)
{
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	struct child child = child_fork(grow_on_demand, NULL);
	look_at(child.pid);
	uint64_t before = seen().stack_kib;
	ck_assert_uint_gt(before, 0);
	ck_assert_uint_eq(seen().stack_kib, before);
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	run_until(seen().stack_kib >= before + 512, SOON_MS);
	child_kill(&child);
	look_away();
	close(gate[0]);
	close(gate[1]);
}

/* The status of an ended main thread does not show the filters of the threads that run. */
HT_TEST(the_main_thread_has_ended)
{
	struct child child = child_fork(end_the_leader, NULL);
	look_at(child.pid);
	run_until(seen().seccomp == SECCOMP_MODE_FILTER, SOON_MS);
	child_kill(&child);
	look_away();
}

static _Noreturn void wait_for_ever(void)
{
	for (;;)
		pause();
}

static char idle_env[] = IDLE "=1";

static int share(void *arg)
{
	(void)arg;
	wait_for_ever();
}

/* The child execs this program again, which then waits here. */
__attribute__((constructor)) static void be_idle(void)
{
	if (getenv(IDLE))
		wait_for_ever();
}

static void exec_on_demand(const void *arg)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	char byte;
	long sharer = 0;
	if (arg)
		sharer = clone(share, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
	child_ready(sharer);
	if (read(gate[0], &byte, 1) == 1)
		execle("/proc/self/exe", "test_glance", NULL, (char *const[]){idle_env, NULL});
	_exit(1);
}

static bool is_idle(pid_t pid)
{
	char path[32], text[sizeof(idle_env)] = "";
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	FILE *file = fopen(path, "re");
	bool is = file && fread(text, 1, sizeof(text), file) == sizeof(text) &&
		  strcmp(text, idle_env) == 0;
	if (file)
		fclose(file);
	return is;
}

static unsigned calls_until_noticed(void)
{
	unsigned calls = 1;
	while (glance_changed(&glance) != PROC_EXECED && calls <= 2 * CALLS_MAX)
		calls++;
	return calls;
}

static void check_exec(bool shared, unsigned calls_max)
{
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	struct child child = child_fork(exec_on_demand, shared ? "shared" : NULL);
	look_at(child.pid);
	for (int i = 0; i < 2 * CALLS_MAX + 1; i++)
		ck_assert_int_eq(glance_changed(&glance), PROC_SAME);
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	close(gate[0]);
	close(gate[1]);
	run_until(is_idle(child.pid), SOON_MS);
	ck_assert_uint_le(calls_until_noticed(), calls_max);
	if (shared)
		kill((pid_t)child.value, SIGKILL);
	child_kill(&child);
	look_away();
}

HT_TEST(another_program)
{
	check_exec(false, 1);
}

HT_TEST(another_program_in_the_same_file)
{
	check_exec(true, CALLS_MAX);
}

HT_TEST(the_end)
{
	struct child child = child_fork(child_idle, NULL);
	look_at(child.pid);
	ck_assert_int_eq(glance_changed(&glance), PROC_SAME);
	child_kill(&child);
	ck_assert_int_eq(glance_changed(&glance), PROC_EXITED);
	look_away();
}

HT_SUITE("attach/process/glance")
