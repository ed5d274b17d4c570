/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes for tests: started, known to be ready, and ended whatever happens (they die with
 * the test). Failures are failures of the test.
 */
#pragma once

#include <sys/types.h>

struct child {
	pid_t pid;
	int ready_fd; /* at its end when the child exec'd or exited */
	long value;   /* that child_ready gave */
};

/* Forks; the child runs `body`, which calls child_ready() and then may wait in child_wait(). */
struct child child_fork(void (*body)(const void *arg), const void *arg);
/* In the child: lets child_fork return in the parent, with a `value` for it. */
void child_ready(long value);
/* In the child: sleeps until it is killed. */
_Noreturn void child_wait(void);

/* Bodies for child_fork. It is ready, and sleeps. */
void child_idle(const void *unused);
/* The same, and another process sleeps in its memory (CLONE_VM): its number is the `value`. It ends
 * with the child. */
void child_idle_shared(const void *unused);

/* fork(2) with the number `pid` for the child, which must be free (CAP_CHECKPOINT_RESTORE or
 * CAP_SYS_ADMIN); -1 with errno. */
pid_t child_fork_as(pid_t pid);

/* Starts a program (looked up in PATH); `env` adds NAME=VALUE settings, NULL-terminated, or NULL.
 * Returns when its exec is done. */
struct child child_exec(const char *const argv[], const char *const env[]);
/* Waits until /proc/PID/maps of the child contains `text`: a library is loaded. */
void child_mapped(const struct child *child, const char *text);

/* From now on both run on one core only. */
void child_share_core(pid_t a, pid_t b);

/* The state of a process as the kernel tells it: R, S, T, Z, ... of its main thread. */
char child_state(pid_t pid);
/* The number of the system call that a thread of whatever process is in; -1: none, or it has ended.
 */
long child_call(pid_t tid);
/* Waits until its main thread sleeps: a program whose work ends in pause() has done it. */
void child_sleeping(const struct child *child);

void child_kill(struct child *child);
