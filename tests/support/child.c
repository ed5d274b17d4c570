/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/child.h"

#include <check.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES 65536u /* stack of the process that shares the child's memory */

static int ready_out = -1;

static struct child fork_with_pipe(int out[2])
{
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	fflush(NULL);
	pid_t parent = getpid();
	struct child child = {.pid = fork(), .ready_fd = out[0]};
	ck_assert_int_ge(child.pid, 0);
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(127);
		close(out[0]);
	} else {
		close(out[1]);
	}
	return child;
}

struct child child_fork(void (*body)(const void *arg), const void *arg)
{
	int out[2];
	struct child child = fork_with_pipe(out);
	if (child.pid == 0) {
		ready_out = out[1];
		body(arg);
		_exit(0);
	}
	ck_assert_int_eq(
		read(child.ready_fd, &child.value, sizeof(child.value)), sizeof(child.value));
	return child;
}

pid_t child_fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

void child_ready(long value)
{
	if (write(ready_out, &value, sizeof(value)) != sizeof(value))
		_exit(126);
}

void child_wait(void)
{
	for (;;)
		pause();
}

void child_idle(const void *unused)
{
	(void)unused;
	child_ready(0);
	child_wait();
}

static int wait_sharing(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_wait();
}

void child_idle_shared(const void *unused)
{
	static uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));
	(void)unused;
	child_ready(clone(wait_sharing, stack + sizeof(stack), CLONE_VM, NULL));
	child_wait();
}

/* Uses ptrace, because a traced child stops when its exec is complete. A close-on-exec descriptor
 * is closed too early: the new program is not mapped yet. */
struct child child_exec(const char *const argv[], const char *const env[])
{
	int out[2], status;
	struct child child = fork_with_pipe(out);
	if (child.pid == 0) {
		int null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		for (; env && *env; env++)
			putenv((char *)(uintptr_t)*env);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
	ck_assert_msg(WIFSTOPPED(status), "cannot run %s", argv[0]);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, child.pid, NULL, NULL), 0);
	return child;
}

static int maps_contain(pid_t pid, const char *text)
{
	char path[64], line[8192];
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	int found = 0;
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, text) != NULL;
	fclose(file);
	return found;
}

void child_mapped(const struct child *child, const char *text)
{
	while (!maps_contain(child->pid, text)) {
		ck_assert_msg(waitpid(child->pid, NULL, WNOHANG) == 0, "the child ended");
		sched_yield();
	}
}

void child_share_core(pid_t a, pid_t b)
{
	cpu_set_t all, one;
	int cpu = 0;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(a, sizeof(one), &one), 0);
	ck_assert_int_eq(sched_setaffinity(b, sizeof(one), &one), 0);
}

char child_state(pid_t pid)
{
	char path[64], line[256], state = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	while (!state && fgets(line, sizeof(line), file))
		if (!strncmp(line, "State:\t", 7))
			state = line[7];
	fclose(file);
	return state;
}

long child_call(pid_t tid)
{
	char path[64];
	long call = -1;
	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	FILE *file = fopen(path, "re");
	if (file && fscanf(file, "%ld", &call) != 1)
		call = -1;
	if (file)
		fclose(file);
	return call;
}

void child_sleeping(const struct child *child)
{
	for (char state; (state = child_state(child->pid)) != 'S';) {
		ck_assert_msg(state != 'Z', "the child ended");
		sched_yield();
	}
}

void child_kill(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->ready_fd);
}

static bool has_name(pid_t pid, const char *name)
{
	char path[64], comm[32] = "";
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *file = fopen(path, "re");
	if (file && fgets(comm, sizeof(comm), file))
		comm[strcspn(comm, "\n")] = '\0';
	if (file)
		fclose(file);
	return strcmp(comm, name) == 0;
}

pid_t child_named(pid_t parent, const char *name)
{
	char path[64];
	pid_t pid, found = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	FILE *children = fopen(path, "re");
	while (children && !found && fscanf(children, "%d", &pid) == 1)
		found = has_name(pid, name) ? pid : 0;
	if (children)
		fclose(children);
	return found;
}
