/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and restores slots: one aligned store each through /proc/PID/mem, the target running.
 */
#pragma once

#include "attach/elf/slots.h"
#include "attach/inject/journal.h"

/* Puts `thunk` into `slot` if it still holds slot->value. `maps` is a recent reading. `ret_done`:
 * false when the word changed meanwhile or its page is gone. */
HT_MUST_CHECK
struct ht_err *patch_tap(const struct proc *proc, const struct proc_maps *maps,
	const struct slot *slot, raddr_t thunk, struct journal *journal, bool *ret_done);

struct patch_report {
	size_t tapped;	 /* slots that the journal names */
	size_t restored; /* hold their original value again, or already did */
	size_t lost;	 /* changed by others or unmapped: left alone */
};

/* Restores every slot that still holds our thunk in the mapping that was tapped. Goes on past a
 * failing slot and returns the first error. */
HT_MUST_CHECK
struct ht_err *patch_untap_all(
	const struct proc *proc, struct journal *journal, struct patch_report *ret);
