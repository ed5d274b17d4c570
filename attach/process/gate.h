/* SPDX-License-Identifier: Apache-2.0
 *
 * How a heaptap that takes the lock of a process ends the guardian that lingers for a page there: a
 * socket without a file, named after the process.
 */
#pragma once

#include "attach/proc/proc.h"

/* For a guardian: readable once another heaptap knocks. -1: another guardian waits for this process
 * and has not ended yet. The caller closes it. */
int gate_open(const struct proc *proc);
/* Ends the guardian that lingers for a page of `proc`, if there is one. */
void gate_knock(const struct proc *proc);
