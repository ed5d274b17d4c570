/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes for tests: started, known to be ready, and ended at the latest with the test. An
 * error fails the test, unless a function says what it returns then.
 */
#pragma once

#include <sys/types.h>

struct child {
	pid_t pid;
	int ready_fd; /* at end of file once the child has execed or exited */
	long value;   /* the argument of child_ready */
};

/* Forks; the child runs `body`, which calls child_ready() and then may wait in child_wait(). */
struct child child_fork(void (*body)(const void *arg), const void *arg);
/* In the child: lets child_fork return in the parent, with a `value` for it. */
void child_ready(long value);
/* In the child: sleeps until it is killed. */
_Noreturn void child_wait(void);

/* A body for child_fork: calls child_ready(0), then sleeps. */
void child_idle(const void *unused);
/* Like child_idle, with a second process in the same memory (CLONE_VM), which sleeps and ends with
 * the child. `value` is the second process's PID. */
void child_idle_shared(const void *unused);

/* fork(2), but the child gets the PID `pid`, which must be free. Needs CAP_CHECKPOINT_RESTORE or
 * CAP_SYS_ADMIN. -1 with errno on error. */
pid_t child_fork_as(pid_t pid);

/* Starts a program (looked up in PATH); `env` adds NAME=VALUE settings, NULL-terminated, or NULL.
 * Returns when its exec is done. */
struct child child_exec(const char *const argv[], const char *const env[]);
/* Waits until /proc/PID/maps of the child contains `text`, for example the name of a library. */
void child_mapped(const struct child *child, const char *text);

/* Restricts the main threads of both processes to one common core. */
void child_share_core(pid_t a, pid_t b);

/* The PID of the first child of `parent` whose name (/proc/PID/comm) is `name`; 0: none. */
pid_t child_named(pid_t parent, const char *name);

/* The state letter of the process's main thread in /proc/PID/status: R, S, T, Z, ... */
char child_state(pid_t pid);
/* The number of the system call that a thread of any process is in; -1: none, or the thread has
 * ended. */
long child_call(pid_t tid);
/* Waits until the child's main thread sleeps: a program that calls pause() after its work has done
 * the work then. */
void child_sleeping(const struct child *child);

void child_kill(struct child *child);
