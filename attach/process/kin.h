/* SPDX-License-Identifier: Apache-2.0
 *
 * Other processes that share a process's memory or have a copy of it, found by a walk through
 * /proc; and its children.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/proc/proc_tids.h"

/* Lists the processes that run in the memory of `proc` without being its threads: vfork(2),
 * clone(CLONE_VM). HT_ERR_INCOMPLETE: unknown for one of them. Free with proc_tids_deinit. */
HT_MUST_CHECK
struct ht_err *kin_sharing(const struct proc *proc, struct proc_tids *ret);
/* Does process `other` run in the memory of `proc`? False if it has ended; an error if it is
 * unknown. */
HT_MUST_CHECK
struct ht_err *kin_shares(const struct proc *proc, pid_t other, bool *ret);

/* Lists the processes that `proc` or its children may have forked: not older than `proc`, and
 * running the same program. Finds these processes also if `proc` has ended or runs another program
 * now; if `proc` has left its memory to other processes, those may be older. A process whose
 * program this user may not see (PR_SET_DUMPABLE) counts if it descends from `proc` and has this
 * user's rights; one that cannot be examined for another reason counts, too. */
HT_MUST_CHECK
struct ht_err *kin_forked(const struct proc *proc, struct proc_tids *ret);

/* Stores up to `max` children of `proc` in `ret` and returns their number. If a child begins or
 * ends meanwhile, the list may lack others: look again before you rely on an absence. */
size_t kin_children(const struct proc *proc, pid_t *ret, size_t max);
