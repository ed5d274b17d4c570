/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of a process: a heaptap that takes the lock of the process uses it to end a guardian
 * that still lingers there for a jump page. The gate is a socket in the abstract namespace, named
 * after the process.
 */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "attach/proc/proc.h"

/* Sets `ret` to the address "PREFIX-PID-START" in the abstract namespace, where no file stays
 * behind. Returns its length. */
socklen_t gate_address(const struct proc *proc, const char *prefix, struct sockaddr_un *ret);
/* For a guardian: a socket that becomes readable when another heaptap knocks. The caller closes it.
 * -1: another guardian waits for this process and has not ended yet, or no socket can be made. */
int gate_open(const struct proc *proc);
/* Ends the guardian that lingers for a page of `proc`, if there is one. */
void gate_knock(const struct proc *proc);
