/* SPDX-License-Identifier: Apache-2.0
 *
 * One heaptap per process: what the kernel frees when its last holder dies. A guardian holds it on
 * while it detaches for a dead daemon.
 */
#pragma once

#include "attach/target/proc.h"

struct lock {
	int name_fd, file_fd;
};

/* Not held. */
#define LOCK_NONE                                                                                  \
	(struct lock)                                                                              \
	{                                                                                          \
		-1, -1                                                                             \
	}

/* Takes the lock of `proc`; one that only asks, or is dying, is waited for, a second at most.
 * HT_ERR_REFUSED when another heaptap has it. */
HT_MUST_CHECK
struct ht_err *lock_take(const struct proc *proc, struct lock *ret);
/* The same, without waiting. */
HT_MUST_CHECK
struct ht_err *lock_take_now(const struct proc *proc, struct lock *ret);
void lock_release(struct lock *lock); /* accepts LOCK_NONE */

/* Has another heaptap, or a guardian, the lock of `proc` now? */
bool lock_is_held(const struct proc *proc);
/* The refusal where it is so. */
HT_MUST_CHECK
struct ht_err *lock_refuse(const struct proc *proc);
