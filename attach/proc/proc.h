/* SPDX-License-Identifier: Apache-2.0
 *
 * A process, as its directory in /proc shows it. Reads only; no ptrace. All text of /proc is
 * hostile input: names may contain anything. A function that reads a file of a struct proc returns
 * HT_ERR_TARGET_GONE if the process has ended. A function that asks whether a file or a task exists
 * says that it does not.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* A process, pinned: a later process with the same number is never mistaken for it. If its main
 * thread has ended while others run on (a zombie leader), heaptap reads it through those. */
struct proc {
	pid_t pid;
	int pidfd;
	int dir_fd; /* /proc/PID, O_PATH | O_DIRECTORY */
	int mem_fd; /* /proc/PID/mem, O_RDWR: tied to the address space since its open; -1 before
		       proc_open_mem */
	raddr_t random;	      /* address of AT_RANDOM, 16 random bytes in that memory; 0: unknown */
	uint64_t start_ticks; /* field 22 of stat */
	uint64_t exe_dev, exe_ino;
};

/* True also for a zombie. */
bool proc_has_exited(const struct proc *proc);
/* The HT_ERR_TARGET_GONE for a process that has ended. */
HT_MUST_CHECK
struct ht_err *proc_gone(const struct proc *proc);
