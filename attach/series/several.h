/* SPDX-License-Identifier: Apache-2.0
 *
 * attach with several -p: a capture for each process, each in a process of its own.
 */
#pragma once

#include "attach/cli/options.h"
#include "format/err.h"

/*
 * Forks a process for each PID. True in the caller's process, when all have ended: `ret` is the
 * worst of their statuses; signals that a process has sent are passed on. False in the new ones,
 * whose `options` name one PID, and for a single PID. HT_ERR_SYS (`ret_err`): not all could be
 * started; those that were have been ended.
 */
bool several_split(struct options *options, int *ret, struct ht_err **ret_err);
