/* SPDX-License-Identifier: Apache-2.0
 *
 * The proof after detach: what the target was before, compared with what it is now. A running
 * target changes by itself (heap, threads, descriptors, libraries); what is compared is everything
 * that heaptap could have changed, and what differs is named.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/inject/journal.h"
#include "attach/proof/residue_report.h"

struct residue;

/* Takes the picture before anything is touched. */
HT_MUST_CHECK
struct ht_err *residue_create(
	const struct proc *proc, const struct modules *modules, struct residue **ret);
void residue_destroy(struct residue *residue);
/* Looks at the threads' signal masks once more, still before anything is touched: the mask of a
 * thread that changes it by itself (in pthread_create, in handlers) proves nothing later. */
void residue_look_again(struct residue *residue, const struct proc *proc);

/* The first thing that differs; "" when everything is equal. */
const char *residue_difference(const struct residue_report *report);

/* Compares; fails only where the target has ended. `journal` names the slots, the image's range,
 * the descriptor; `keep`: its thunk page stays, and is named. */
HT_MUST_CHECK
struct ht_err *residue_compare(const struct residue *residue, const struct proc *proc,
	const struct journal *journal, bool keep, struct residue_report *ret);
