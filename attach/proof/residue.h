/* SPDX-License-Identifier: Apache-2.0
 *
 * The proof after detach: compares the target with the picture from before the attach. A running
 * target changes by itself (heap, threads, descriptors, libraries), so only what heaptap could have
 * changed is compared. Each difference is named.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/inject/journal.h"
#include "attach/proof/residue_report.h"

struct residue;

/* Takes the picture; call it before anything is touched. The caller frees `*ret` with
 * residue_destroy. */
HT_MUST_CHECK
struct ht_err *residue_create(
	const struct proc *proc, const struct modules *modules, struct residue **ret);
void residue_destroy(struct residue *residue);
/* Reads the threads' signal masks once more, before anything is touched: if a thread's mask changes
 * by itself (in pthread_create, in handlers), the mask is not compared later. */
void residue_look_again(struct residue *residue, const struct proc *proc);

/* Returns the first difference; "" if everything is equal. */
const char *residue_difference(const struct residue_report *report);

/* Compares; fails only if the target has ended. `journal` names the slots, the image's range and
 * the descriptor. `keep`: the jump page is to stay, and is named. */
HT_MUST_CHECK
struct ht_err *residue_compare(const struct residue *residue, const struct proc *proc,
	const struct journal *journal, bool keep, struct residue_report *ret);
