/* SPDX-License-Identifier: Apache-2.0
 *
 * Hook addresses that leave their slots: code that loads a slot's word into a register instead of
 * calling through it, tables of function pointers, `pthread_key_create(&key, free)`. Reads only.
 */
#pragma once

#include "attach/elf/slots.h"
#include "attach/inject/journal.h"
#include "attach/inject/stackscan.h"

/*
 * Can an address have escaped from the tapped slots? True when code of a module refers to one of
 * its tapped slots other than by `call *slot(%rip)` or `jmp *slot(%rip)`, or when a slot is a
 * pointer in program data. The C library's own references are known not to outlive the call and do
 * not count.
 */
HT_MUST_CHECK
struct ht_err *escape_is_possible(const struct proc *proc, const struct modules *modules,
	const struct slots *slots, const struct journal *journal, bool *ret);

struct escape_found {
	size_t count;
	raddr_t addr; /* where the first of them stands */
};

/* Searches all writable memory but the image [image_lo, image_hi) for thunk entries. */
HT_MUST_CHECK
struct ht_err *escape_scan_memory(const struct proc *proc, const struct stackscan_ranges *ranges,
	raddr_t image_lo, raddr_t image_hi, struct escape_found *ret);
