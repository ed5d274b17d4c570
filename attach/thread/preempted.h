/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a thread stands that waits for a core.
 */
#pragma once

#include "attach/proc/proc.h"

/* Was it taken off its core in the program's own code? Then it is in no call that a stop could
 * begin anew. False where that is not known: it runs, or the kernel does not tell us (it tells
 * root, outside of user namespaces). */
bool preempted_is(const struct proc *proc, pid_t tid);
