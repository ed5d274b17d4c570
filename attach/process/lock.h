/* SPDX-License-Identifier: Apache-2.0
 *
 * One heaptap per memory: what the kernel frees when its last holder dies. A guardian holds it on
 * while it detaches for a dead daemon. Each process has a lock of its own; of those that run in one
 * memory (vfork, CLONE_VM) one at most is held.
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

/* Takes the lock of `proc`; one that only asks, or is dying, is waited for: a second for each of
 * the two locks, and some for that of who shares the memory. HT_ERR_REFUSED when another
 * heaptap has it. A guardian that lingers for the page of an earlier capture ends. */
HT_MUST_CHECK
struct ht_err *lock_take(const struct proc *proc, struct lock *ret);
/* The same, without waiting. */
HT_MUST_CHECK
struct ht_err *lock_take_now(const struct proc *proc, struct lock *ret);
/* The same, where the lock of `ours`, which may share its memory, is the caller's. */
HT_MUST_CHECK
struct ht_err *lock_take_beside(
	const struct proc *proc, const struct proc *ours, bool wait, struct lock *ret);
void lock_release(struct lock *lock); /* accepts LOCK_NONE */

/* Has another heaptap, or a guardian, the lock of `proc` now, or of who runs in its memory? */
bool lock_is_held(const struct proc *proc);
/* The refusal where it is so. */
HT_MUST_CHECK
struct ht_err *lock_refuse(const struct proc *proc);
