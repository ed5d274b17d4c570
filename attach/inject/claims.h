/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a journal that was found in a target: the target may have written anything into it. Its
 * claims must agree with the kernel and the modules.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/inject/journal.h"

/*
 * HT_ERR_REFUSED if the journal names another image or thunk page than `image`, names an address
 * for the stub that cannot hold one, would restore a slot that holds one of heaptap's thunks to
 * something other than code, or would write to code other bytes than those of the code's file.
 * Entries that are no known slot and hold no thunk become JOURNAL_SLOT_GONE. The journal's list of
 * the user's names replaces that of this process (given_use).
 */
HT_MUST_CHECK
struct ht_err *claims_check(
	const struct proc *proc, const struct image *image, struct journal *journal);
