/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where a thread was preempted.
 */
#pragma once

#include "attach/proc/proc.h"

/* Was the thread taken off its core in the program's own code? Then it is in no system call that a
 * stop could restart. False if that is unknown: the thread runs, or the kernel does not tell this
 * user (it tells root outside of user namespaces). */
bool preempted_is(const struct proc *proc, pid_t tid);
