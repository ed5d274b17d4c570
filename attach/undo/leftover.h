/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors that no journal tells of any more, as they are each process's own: who was found with
 * the agent mapped may only run in the memory of the one that has its socket (CLONE_VM).
 */
#pragma once

#include "attach/undo/recover.h"

/*
 * After recover_run, where no heaptap lives: closes what `heaptap verify` would name in `proc`, and
 * in all that run in its memory, and adds that to the report. HT_ERR_INCOMPLETE names the process
 * that keeps one, or of which that cannot be told. What only a thread's own table has is not
 * closed. None is begun after half a minute. Requires proc_open_mem, and
 * the lock of one of them.
 */
HT_MUST_CHECK
struct ht_err *leftover_close(const struct proc *proc, struct recover_report *report);
