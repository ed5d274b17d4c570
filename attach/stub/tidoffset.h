/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where the target's C library keeps a thread's tid: searches the thread's control block for
 * its known tid.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "attach/proc/proc.h"

/*
 * Returns the offset in bytes from the thread pointer to the word that holds `ns_tid`, the thread's
 * number in its innermost PID namespace. `regs`: registers of the thread, which must be held, since
 * after its end another thread may get its control block. 0: `ns_tid` is 0, the block cannot be
 * read, does not hold the number, or holds it several times and not where glibc or musl has it.
 * Read `ns_tid` before the thread is stopped, as that takes longer than this search.
 */
uint32_t tidoffset_find(const struct proc *proc, const struct user_regs_struct *regs, pid_t ns_tid);
