/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a process's mappings, and checks that the file systems behind them answer. A process may
 * serve a file system, perhaps the target itself: the file system must answer heaptap before
 * heaptap reads one of its pages in the target's memory (slow.h).
 */
#pragma once

#include "attach/memory/proc_maps.h"

/* Reads the mappings. HT_ERR_REFUSED if a file system of a mapped file does not answer within 10 s:
 * then the target's memory must not be read. `ret` is empty after an error. */
HT_MUST_CHECK
struct ht_err *stalled_read_maps(const struct proc *proc, struct proc_maps *ret);
/* For a caller that cannot refuse: if a file system does not answer within 2 s, this process avoids
 * slow mappings from now on (slow_avoid). */
HT_MUST_CHECK
struct ht_err *stalled_read_maps_later(const struct proc *proc, struct proc_maps *ret);

/* As stalled_read_maps, without the mappings. */
HT_MUST_CHECK
struct ht_err *stalled_check(const struct proc *proc);
/* As stalled_read_maps_later, without the mappings, and with 10 s instead of 2 s: for a caller that
 * no other process kills if it hangs. */
HT_MUST_CHECK
struct ht_err *stalled_avoid(const struct proc *proc);
