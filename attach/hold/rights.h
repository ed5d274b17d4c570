/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that their file gives rights: traced by an ordinary user they run without these.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/thread/regs.h"

/* HT_ERR_REFUSED: what process `pid` has just become is such a program. */
HT_MUST_CHECK
struct ht_err *rights_check(pid_t pid);

/* May thread `tid` of `proc` (it may have directories and descriptors of its own), stopped as it
 * enters execve or execveat with `regs`, be traced while that is done? False where it is not
 * certain. `execveat`: which of the two. */
bool rights_allow_exec(
	const struct proc *proc, pid_t tid, const struct user_regs_struct *regs, bool execveat);
