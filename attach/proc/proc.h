/* SPDX-License-Identifier: Apache-2.0
 *
 * A process whose /proc is read. Reads only; no ptrace. All text of /proc is hostile input (names
 * contain anything). A process that is gone gives HT_ERR_TARGET_GONE from every function that takes
 * a struct proc.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* Identity of a process, pinned: it cannot be mistaken for a later one with the same number. A
 * process whose main thread has ended while others go on (a zombie leader) is used through them. */
struct proc {
	pid_t pid;
	int pidfd;
	int dir_fd;	/* /proc/PID, O_PATH | O_DIRECTORY */
	int mem_fd;	/* /proc/PID/mem, O_RDWR: bound to the address space at open; -1 before
			   proc_open_mem */
	raddr_t random; /* of that memory, where each program has 16 random bytes; 0: not known */
	uint64_t start_ticks; /* field 22 of stat */
	uint64_t exe_dev, exe_ino;
};

/* Has the process ended? A zombie has. */
bool proc_has_exited(const struct proc *proc);
/* HT_ERR_TARGET_GONE that says so. */
HT_MUST_CHECK
struct ht_err *proc_gone(const struct proc *proc);
