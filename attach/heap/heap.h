/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from outside how much the target's allocators have handed out: heaptap calls, stops and
 * waits for nothing in the target. Reads, memory and time are bounded whatever the target's memory
 * contains.
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

/* Reads the data structures of all allocators in `modules`. The process may run on: changes during
 * the read are part of off_bytes. HT_ERR_TARGET_GONE, HT_ERR_NOMEM; any other failure makes an
 * account unknown. */
HT_MUST_CHECK
struct ht_err *heap_read(const struct proc *proc, const struct modules *modules, struct heap *ret);
