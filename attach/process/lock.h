/* SPDX-License-Identifier: Apache-2.0
 *
 * One heaptap per address space. The kernel frees the lock when its last holder dies; a guardian
 * keeps it while it detaches for a dead daemon. Each process has a lock of its own; of the
 * processes in one address space (vfork, CLONE_VM) at most one is locked.
 */
#pragma once

#include "attach/proc/proc.h"

struct lock {
	int name_fd, file_fd;
};

/* Not held. */
#define LOCK_NONE                                                                                  \
	(struct lock)                                                                              \
	{                                                                                          \
		-1, -1                                                                             \
	}

/* Takes the lock of `proc`. Waits up to a second for each of the two locks, and longer if a process
 * that shares the memory is locked, since a holder may only be asking or dying. HT_ERR_REFUSED if
 * another heaptap holds it. Ends a guardian that lingers for the page of an earlier capture. */
HT_MUST_CHECK
struct ht_err *lock_take(const struct proc *proc, struct lock *ret);
/* As lock_take, without waiting, and without ending a guardian that lingers. */
HT_MUST_CHECK
struct ht_err *lock_take_now(const struct proc *proc, struct lock *ret);
/* As lock_take_now, or, if `wait`, with the waits of lock_take, while the caller holds the lock of
 * `ours`, which may share the memory. */
HT_MUST_CHECK
struct ht_err *lock_take_beside(
	const struct proc *proc, const struct proc *ours, bool wait, struct lock *ret);
void lock_release(struct lock *lock); /* accepts LOCK_NONE */

/* Does a heaptap or guardian hold the lock of `proc`, or of a process that shares its memory? True
 * if that is unknown. */
bool lock_is_held(const struct proc *proc);
/* Returns the HT_ERR_REFUSED for a process whose lock is held; never NULL. */
HT_MUST_CHECK
struct ht_err *lock_refuse(const struct proc *proc);
