/* SPDX-License-Identifier: Apache-2.0
 *
 * By a gate, a heaptap that takes the lock of a process ends a guardian that still lingers there
 * for a jump page. The gate is a socket in the abstract namespace, named after the process.
 */
#pragma once

#include "attach/proc/proc.h"

/* For a guardian: a socket that becomes readable when another heaptap knocks. The caller closes it.
 * -1: another guardian waits for this process and has not ended yet. */
int gate_open(const struct proc *proc);
/* Ends the guardian that lingers for a page of `proc`, if there is one. */
void gate_knock(const struct proc *proc);
