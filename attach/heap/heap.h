/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target's allocators hold, read from outside: nothing of the target is called, stopped
 * or waited for. Bounded in reads, memory and so in time, whatever the target's memory says.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/account.h"
#include "attach/proc/proc.h"

#define HEAP_ACCOUNTS_MAX 8u

struct heap {
	struct heap_account account[HEAP_ACCOUNTS_MAX];
	size_t count;
};

/*
 * Reads the books of all allocators that `modules` bring. The process may run on meanwhile: what
 * changed while it was read is part of off_bytes. HT_ERR_TARGET_GONE, HT_ERR_NOMEM; whatever else
 * goes wrong makes an account unknown.
 */
HT_MUST_CHECK
struct ht_err *heap_read(const struct proc *proc, const struct modules *modules, struct heap *ret);
