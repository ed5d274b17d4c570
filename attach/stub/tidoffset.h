/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the C library of the target keeps a thread's tid: found by looking for a tid that is known
 * in the thread's control block.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "attach/proc/proc.h"

/*
 * Offset in bytes from its thread pointer of the word that holds `ns_tid`, the number in its
 * innermost pid namespace of the thread that is held with these registers: once it goes on it may
 * end, and its block be another's. 0: `ns_tid` is 0, or the block does not hold it, or more than
 * once and not where glibc or musl has it, or cannot be read. Asking for `ns_tid` takes longer than
 * this, and is better done before the thread is stopped.
 */
uint32_t tidoffset_find(const struct proc *proc, const struct user_regs_struct *regs, pid_t ns_tid);
