/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a journal that was found in a target: the target may have written anything into it. Its
 * claims must agree with the kernel and the modules.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/inject/journal.h"

/*
 * HT_ERR_REFUSED if the journal names another image or thunk page than `image`, names a place for
 * the stub that is none, or would restore an allocator slot that holds one of our thunks to
 * something other than code. Entries that are no known slot and hold no thunk become
 * JOURNAL_SLOT_GONE.
 */
HT_MUST_CHECK
struct ht_err *claims_check(
	const struct proc *proc, const struct image *image, struct journal *journal);
