/* SPDX-License-Identifier: Apache-2.0
 *
 * Cheap answers to questions that heaptap asks two hundred times a second during a window, and
 * whose answers hardly ever change.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/process/proc_open.h"

struct glance {
	const struct proc *proc;
	int status_fd; /* status of the main thread; -1: ask proc_status */
	unsigned turn;
};

struct glance_status {
	int seccomp;	    /* as in proc_status */
	pid_t tracer;	    /* 0: none */
	uint64_t stack_kib; /* stack of the main thread, and every other mapping that grows; 0:
			       unknown */
};

/* `proc` must outlive `glance`. If the status file cannot be opened, the answers cost more, and
 * stack_kib is unknown. */
void glance_open(struct glance *glance, const struct proc *proc);
void glance_close(struct glance *glance);
/* Status of the main thread, or of another one if it has ended. */
HT_MUST_CHECK
struct ht_err *glance_status(const struct glance *glance, struct glance_status *ret);
/* As proc_changed, but an exec is noticed at once only if nothing else uses the old memory;
 * otherwise (CLONE_VM) within eight calls. */
enum proc_change glance_changed(struct glance *glance);
