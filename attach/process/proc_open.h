/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a process, and tells whether it is still the one that was opened.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"

/* Opens process `pid`; close it with proc_close. HT_ERR_REFUSED, with the reason: no such process,
 * a thread, a kernel thread, a zombie. HT_ERR_PERMISSION: /proc is not mounted, or hides the
 * process. After an error `ret` is closed. */
HT_MUST_CHECK
struct ht_err *proc_open(pid_t pid, struct proc *ret);
/* Opens /proc/PID/mem, unless it is open. HT_ERR_PERMISSION names the rule (user, capability, Yama,
 * dumpable). */
HT_MUST_CHECK
struct ht_err *proc_open_mem(struct proc *proc);
void proc_close(struct proc *proc); /* accepts a zeroed or closed `proc` */
/* The status of the main thread of process `pid`. Errors as those of proc_open and proc_status. */
HT_MUST_CHECK
struct ht_err *proc_status_of(pid_t pid, struct proc_status *ret);

enum proc_change { PROC_SAME, PROC_EXITED, PROC_EXECED };
/* Is `proc` still the same process and program? An exec of the same file is noticed only after
 * proc_open_mem. */
enum proc_change proc_changed(const struct proc *proc);
/* HT_ERR_TARGET_GONE unless proc_changed is PROC_SAME. */
HT_MUST_CHECK
struct ht_err *proc_check_same(const struct proc *proc);
