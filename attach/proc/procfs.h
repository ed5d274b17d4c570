/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks which PID namespace /proc shows. A number names one process in each PID namespace: if
 * /proc is mounted for another namespace than heaptap's, /proc/N and the N of ptrace and pidfd_open
 * are different processes.
 */
#pragma once

#include "format/err.h"

/* HT_ERR_REFUSED if /proc shows another PID namespace than heaptap's, or if heaptap's children
 * would be in another one. Looks until the first success: neither changes while heaptap runs. */
HT_MUST_CHECK
struct ht_err *procfs_check(void);
