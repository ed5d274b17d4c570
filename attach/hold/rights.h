/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that get rights from their file (set-user-ID, capabilities): traced by an ordinary user,
 * they run without these rights.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/thread/regs.h"

/* HT_ERR_REFUSED if process `pid` has just exec'd such a program. */
HT_MUST_CHECK
struct ht_err *rights_check(pid_t pid);

/* May thread `tid` of `proc` be traced through its exec? It is stopped at the entry of execve, or
 * of execveat if `execveat` is set, with `regs`; it may have its own directory and descriptors.
 * False if that is uncertain. */
bool rights_allow_exec(
	const struct proc *proc, pid_t tid, const struct user_regs_struct *regs, bool execveat);
