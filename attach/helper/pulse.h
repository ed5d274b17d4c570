/* SPDX-License-Identifier: Apache-2.0
 *
 * Says when this process may be waiting for the target: a page of the target can be served by a
 * file system that never answers, and only SIGKILL ends such a read. The guardian, which shares the
 * count, ends a daemon that stays in one.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Makes the count, for this process to keep and processes forked from here on to watch. */
HT_MUST_CHECK
struct ht_err *pulse_start(void);
/* In a forked process: its own reads are not counted. Returns the parent's count (odd: in a read),
 * NULL when there is none. */
const uint64_t *pulse_watch(void);
/* Around everything that may wait for the target; not nested. Without a count nothing happens. */
void pulse_enter(void);
void pulse_leave(void);
