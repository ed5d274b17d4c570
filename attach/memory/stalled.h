/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings of a process, read only once the file systems behind them have shown that they answer.
 * One that a process serves, maybe the target itself, must do so before a page of it is read in the
 * target's memory (slow.h).
 */
#pragma once

#include "attach/memory/proc_maps.h"

/* Reads the mappings. HT_ERR_REFUSED when a file that the process maps is of a file system that
 * does not answer within 10 s: then nothing of its memory may be read. `ret` is empty after an
 * error. */
HT_MUST_CHECK
struct ht_err *stalled_read_maps(const struct proc *proc, struct proc_maps *ret);
/* For a caller that cannot refuse: where a file system does not answer within 2 s, this process
 * avoids files that hang from now on (slow_avoid). */
HT_MUST_CHECK
struct ht_err *stalled_read_maps_later(const struct proc *proc, struct proc_maps *ret);

/* stalled_read_maps for the answer alone. */
HT_MUST_CHECK
struct ht_err *stalled_check(const struct proc *proc);
/* As stalled_read_maps_later, for the effect alone and with 10 s: for a process that no other ends
 * when it hangs. */
HT_MUST_CHECK
struct ht_err *stalled_avoid(const struct proc *proc);
