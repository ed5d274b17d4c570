/* SPDX-License-Identifier: Apache-2.0
 *
 * One heaptap per process: a socket name that the kernel frees when its last holder dies. A
 * guardian holds it on while it detaches for a dead daemon.
 */
#pragma once

#include "attach/target/proc.h"

/* Takes the lock of `proc`; `ret` is a descriptor to be closed. HT_ERR_REFUSED when another heaptap
 * has it. */
HT_MUST_CHECK
struct ht_err *lock_take(const struct proc *proc, int *ret);

/* Has another heaptap, or a guardian, the lock of `proc` now? */
bool lock_is_held(const struct proc *proc);
