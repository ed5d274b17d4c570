/* SPDX-License-Identifier: Apache-2.0
 *
 * attach with several -p: heaptap forks one process for each target, and each makes its own
 * capture.
 */
#pragma once

#include "attach/cli/options.h"
#include "format/err.h"

/*
 * Forks a process for each PID of `options`, and waits for their end. Returns true in the caller's
 * process: `*ret` is the most important of their exit statuses. Signals that a process sends to the
 * caller are passed on to the new processes. Returns false in each new process, whose `options`
 * name one PID; and without a fork if there are fewer than two PIDs. `*ret_err`: HT_ERR_SYS if a
 * fork failed; the processes that were started have then been ended by SIGTERM.
 */
bool several_split(struct options *options, int *ret, struct ht_err **ret_err);
