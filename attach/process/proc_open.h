/* SPDX-License-Identifier: Apache-2.0
 *
 * A process opened, and whether it is still the one that was opened.
 */
#pragma once

#include "attach/proc/proc.h"

/* Opens the process `pid`. HT_ERR_REFUSED: no such process (says so), a thread id, a kernel thread,
 * a zombie. */
HT_MUST_CHECK
struct ht_err *proc_open(pid_t pid, struct proc *ret);
/* Opens /proc/PID/mem. HT_ERR_PERMISSION names the rule (uid, capability, yama, dumpable). */
HT_MUST_CHECK
struct ht_err *proc_open_mem(struct proc *proc);
void proc_close(struct proc *proc); /* accepts a zeroed or closed one */

enum proc_change { PROC_SAME, PROC_EXITED, PROC_EXECED };
/* Is it still the process and the program that was opened? An exec of the same file is noticed only
 * after proc_open_mem. */
enum proc_change proc_changed(const struct proc *proc);
/* The same as an error: HT_ERR_TARGET_GONE unless it is PROC_SAME. */
HT_MUST_CHECK
struct ht_err *proc_check_same(const struct proc *proc);
