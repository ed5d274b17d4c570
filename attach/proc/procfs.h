/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose numbers /proc shows. A number is one process in each PID namespace: where /proc is mounted
 * for another one than ours, what is read below /proc/N and what ptrace and pidfd_open call N are
 * two processes.
 */
#pragma once

#include "format/err.h"

/* HT_ERR_REFUSED when the numbers below /proc, or those of the processes that we start, are not
 * ours. Looks once: neither changes while we run. */
HT_MUST_CHECK
struct ht_err *procfs_check(void);
