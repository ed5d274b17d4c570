/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a journal that was found in a target and not kept by ourselves: the target may have
 * written anything into it. What it claims must agree with what the kernel and the modules say.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/inject/journal.h"

/*
 * HT_ERR_REFUSED when it names another image or thunk page than `image`, a place for the stub that
 * is none, or would put something else than code into an allocator slot that holds one of our
 * thunks. Entries that are no known slot and hold no thunk become JOURNAL_SLOT_GONE.
 */
HT_MUST_CHECK
struct ht_err *claims_check(
	const struct proc *proc, const struct image *image, struct journal *journal);
