/* SPDX-License-Identifier: Apache-2.0
 *
 * Closes descriptors of heaptap that no journal names. A process that has the agent mapped may
 * share the memory (CLONE_VM), but not the descriptors, of the process that has the agent's socket.
 */
#pragma once

#include "attach/undo/recover.h"

/*
 * Call after recover_run, if no heaptap lives. Closes the descriptors that `heaptap verify` would
 * name in `proc` and in all processes that share its memory, and adds the result to the report.
 * HT_ERR_INCOMPLETE names a process that keeps such a descriptor, or that cannot be searched. A
 * descriptor that is only in one thread's own table is not closed. No descriptor is closed later
 * than half a minute after the start. Requires proc_open_mem, and the lock of one of these
 * processes.
 */
HT_MUST_CHECK
struct ht_err *leftover_close(const struct proc *proc, struct recover_report *report);
