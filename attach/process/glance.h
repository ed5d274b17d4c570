/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a process two hundred times a second while it is recorded, and hardly ever
 * changes: the same answers as those of proc.h, for a fraction of the processor time.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/process/proc_open.h"

struct glance {
	const struct proc *proc;
	int status_fd; /* of the main thread; -1: proc_status is asked */
	unsigned turn;
};

struct glance_status {
	int seccomp;	    /* as in proc_status */
	pid_t tracer;	    /* 0: none */
	uint64_t stack_kib; /* of the main thread's stack, and of all that grow; 0: not told */
};

/* `proc` must live as long. What cannot be opened costs more, and no more than that. */
void glance_open(struct glance *glance, const struct proc *proc);
void glance_close(struct glance *glance);
/* Of the main thread; where that has ended, of another. */
HT_MUST_CHECK
struct ht_err *glance_status(const struct glance *glance, struct glance_status *ret);
/* As proc_changed. Another program in the same file is noticed at every eighth call at the latest,
 * where the memory of the old one has users left (CLONE_VM); at once where it has none. */
enum proc_change glance_changed(struct glance *glance);
