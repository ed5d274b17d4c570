/* SPDX-License-Identifier: Apache-2.0
 *
 * attach -b: the capture goes on in a process of its own, without a terminal, after the command has
 * returned. Its errors go to the journal if heaptap was started with it as standard error, else
 * they are in the answer to stop --wait.
 */
#pragma once

#include "attach/series/outcome.h"

/*
 * Forks the process that captures. True in the caller's process: the capture has begun, which is
 * printed, or has failed, with its own words and the same exit status as without -b; signals are
 * passed on until then. False in the new process, which goes on: a session of its own, its standard
 * streams lead to the caller's process. HT_ERR_SYS (`ret_err`): there is no such process.
 */
bool background_leave(
	const struct options *options, enum exit_status *ret, struct ht_err **ret_err);

/* The capture has begun, or begun to wait for its moment: lets the caller's process end, and gives
 * up its streams. `context`: the name of the trace. Does nothing without -b, or again. */
void background_begun(void *context);
