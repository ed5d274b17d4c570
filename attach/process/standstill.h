/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the reason for which a whole process does not run.
 */
#pragma once

#include "attach/proc/proc.h"

/* The reason why no thread of the process runs, and the remedy, as text; NULL: they run, or have
 * different reasons, or the look failed. May take 0.1 s: call it after a failure. */
const char *standstill_reason(const struct proc *proc);
