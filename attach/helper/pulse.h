/* SPDX-License-Identifier: Apache-2.0
 *
 * A counter that shows when this process may be waiting for the target: a file system that never
 * answers may serve a page of the target, and only SIGKILL ends such a read. The guardian shares
 * the counter and ends a daemon that stays in one read.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Creates the counter of this process. Processes forked from here on can watch it. */
HT_MUST_CHECK
struct ht_err *pulse_start(void);
/* For a forked process: stops counting its own reads. Returns the parent's counter, which is odd
 * during a read; NULL: there is none. */
const uint64_t *pulse_watch(void);
/* Call them around every call that may wait for the target. They do not nest, and do nothing
 * without a counter. */
void pulse_enter(void);
void pulse_leave(void);
