/* SPDX-License-Identifier: Apache-2.0
 *
 * Which PID namespace /proc shows. A number is one process in each PID namespace: if /proc is
 * mounted for another namespace than ours, /proc/N and the N of ptrace and pidfd_open are two
 * processes.
 */
#pragma once

#include "format/err.h"

/* HT_ERR_REFUSED if /proc shows another PID namespace than ours, or if our children would get
 * another one. Looks once: neither changes while heaptap runs. */
HT_MUST_CHECK
struct ht_err *procfs_check(void);
