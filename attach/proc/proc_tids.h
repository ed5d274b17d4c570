/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a process.
 */
#pragma once

#include "attach/proc/proc.h"

struct proc_tids {
	pid_t *tid;
	size_t count;
};

/* Lists all threads, oldest first. A thread that lives throughout the call is always in the list;
 * one that begins or ends meanwhile may be. HT_ERR_REFUSED: threads end too fast for a complete
 * list. Free with proc_tids_deinit. */
HT_MUST_CHECK
struct ht_err *proc_tids_read(const struct proc *proc, struct proc_tids *ret);
void proc_tids_deinit(struct proc_tids *tids);

/* The main thread, or another living thread if the main thread has ended; 0: none lives. */
HT_MUST_CHECK
struct ht_err *proc_living_tid(const struct proc *proc, pid_t *ret);
/* Is there a task with the stat file `path`, relative to dir_fd, that has not ended? */
HT_MUST_CHECK
struct ht_err *proc_task_lives(const struct proc *proc, const char *path, bool *ret);
/* Is `tid` a thread of the process, perhaps past its end? A failed look is an error, never a
 * "no". */
HT_MUST_CHECK
struct ht_err *proc_has_thread(const struct proc *proc, pid_t tid, bool *ret);
/* Does the thread run only kernel code, like the workers of io_uring and vhost? Such a thread is
 * never in the program's code, and a stop makes its work fail. False if the thread has ended. */
HT_MUST_CHECK
struct ht_err *proc_is_worker(const struct proc *proc, pid_t tid, bool *ret);

/* Fields of /proc/PID/stat that identify a task. */
struct proc_stat {
	char name[8]; /* its first characters */
	char state;
	pid_t parent;
	unsigned long flags;
	uint64_t start_ticks;
};

/* Reads the stat file `path`, relative to dir_fd. `*ret_there` is false if there is no such
 * task. */
HT_MUST_CHECK
struct ht_err *proc_stat_read(
	const struct proc *proc, const char *path, struct proc_stat *ret, bool *ret_there);
