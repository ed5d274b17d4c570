/* SPDX-License-Identifier: Apache-2.0
 *
 * Other processes that have the memory of a process, or a copy of it, found by looking at all of
 * /proc; and its children.
 */
#pragma once

#include "attach/proc/proc.h"
#include "attach/proc/proc_tids.h"

/*
 * The processes that run in the memory of `proc` and are not among its threads: vfork(2),
 * clone(CLONE_VM). HT_ERR_INCOMPLETE: of one it cannot be told. Give up with proc_tids_deinit.
 */
HT_MUST_CHECK
struct ht_err *kin_sharing(const struct proc *proc, struct proc_tids *ret);
/* Does process `other` run in the memory of `proc`? One that has ended does not; what cannot be
 * told is an error. */
HT_MUST_CHECK
struct ht_err *kin_shares(const struct proc *proc, pid_t other, bool *ret);

/*
 * The processes that may have been forked by `proc` or by its children: not older, and running the
 * same program. They are found also when the process has ended or runs another program now; of a
 * memory that it has left to others these may be older. Where this user may not see what one runs
 * (PR_SET_DUMPABLE), it counts if it descends from `proc` and has this user's rights.
 */
HT_MUST_CHECK
struct ht_err *kin_heirs(const struct proc *proc, struct proc_tids *ret);

/* Puts the first `max` children of `proc`, as the kernel lists them, into `ret`; their number. A
 * child that comes or goes meanwhile may be missing, and others with it: look again for one that
 * must be found. */
size_t kin_children(const struct proc *proc, pid_t *ret, size_t max);
