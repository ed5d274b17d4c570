/* SPDX-License-Identifier: Apache-2.0
 *
 * attach -b: the capture goes on in a separate process, without a terminal, after the command has
 * returned. That process prints its errors to the journal if heaptap's standard error is systemd's
 * journal; otherwise only the answer to stop --wait has them.
 */
#pragma once

#include "attach/series/outcome.h"

/*
 * Forks the process that captures, and waits until the capture has begun or failed. Returns true in
 * the caller's process: the capture has begun, which is printed (`*ret` is EXIT_DONE), or has
 * failed after printing why (`*ret` is the same exit status as without -b). Until then the caller's
 * process passes signals on. Returns false in the new process, which has its own session, and whose
 * output the caller's process copies; and without a fork if there is no -b. `*ret_err`: HT_ERR_SYS
 * if there is no new process, or an error of printing; the result is true then.
 */
bool background_leave(
	const struct options *options, enum exit_status *ret, struct ht_err **ret_err);

/* Call it in the new process when the capture has begun, or waits for its first window. Lets the
 * caller's process end, and gives up its output streams. `context`: the name of the trace, a
 * string. Does nothing without -b, or when called again. */
void background_begun(void *context);
