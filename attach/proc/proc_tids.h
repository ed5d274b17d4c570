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

/* Every thread that lives from the call to its return is in the list, oldest first; others may be.
 * HT_ERR_REFUSED: they end too fast for that to be certain. */
HT_MUST_CHECK
struct ht_err *proc_tids_read(const struct proc *proc, struct proc_tids *ret);
void proc_tids_deinit(struct proc_tids *tids);

/* Its main thread, or another if that has ended; 0: none lives. */
HT_MUST_CHECK
struct ht_err *proc_living_tid(const struct proc *proc, pid_t *ret);
/* Has it a thread of that number, which may be past its end? What could not be looked at is an
 * error, and never a "no". */
HT_MUST_CHECK
struct ht_err *proc_has_thread(const struct proc *proc, pid_t tid, bool *ret);
/* Does the thread run code of the kernel's alone, as the workers of io_uring and vhost do? None of
 * the program's is ever in it, and one that is stopped ends what it does with an error. False for a
 * thread that is gone. */
HT_MUST_CHECK
struct ht_err *proc_is_worker(const struct proc *proc, pid_t tid, bool *ret);

/* What /proc/PID/stat says of a task to know it by. */
struct proc_stat {
	char name[8]; /* as much of it */
	char state;
	unsigned long flags;
	uint64_t start_ticks;
};

/* `path`: of a stat file below /proc/PID. False in `ret_there` when there is no such task. */
HT_MUST_CHECK
struct ht_err *proc_stat_read(
	const struct proc *proc, const char *path, struct proc_stat *ret, bool *ret_there);
